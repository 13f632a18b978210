"""capo compare."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.errors import UsageError
from capo.storage.text import printable

if TYPE_CHECKING:
    from capo.compare import Comparison
    from capo.runs.reading import SavedRun

OUT = Path("compare")


def compare_runs(
    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(metavar="RUN…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = OUT,
    confidence: float = 0.95,
) -> int:
    """Compare runs: a table, learning curves and an HTML report.

    Example: capo compare runs --out compare

    Args:
        runs: Run folders, or folders that contain run folders at any depth.
        out: Output folder; an earlier comparison in it is replaced.
        confidence: Confidence level of the bootstrap intervals over seeds.
    """
    from capo.storage.files import check_output

    if not 0 < confidence < 1:
        raise UsageError(f"--confidence is {confidence:g}; it must be between 0 and 1")
    if not runs:
        raise UsageError("name run folders, or a folder that contains them: capo compare runs")
    check_output(out, "report.html", "capo compare")
    records, notes = _records(runs)
    from capo.compare import compare
    from capo.compare.text import text_table

    comparison = compare(records, confidence)
    if not comparison.results:
        raise UsageError("there is nothing to compare: no episode has ended in any of the runs")
    comparison = comparison._replace(notes=[*notes, *comparison.notes])
    print(text_table(comparison.results, comparison.overall, confidence))
    for note in comparison.notes:
        print(printable(f"note: {note}"))
    words = ["capo", "compare", *map(str, runs)]
    words += ["--out", str(out)] if out != OUT else []
    words += ["--confidence", f"{confidence:g}"] if confidence != 0.95 else []
    _write(out, comparison, shlex.join(words))
    print(f"\nwritten: {out}/report.html, compare.png, compare.csv, curves.csv")
    return 0


def _records(runs: tuple[Path, ...]) -> tuple[list["SavedRun"], list[str]]:
    """The runs, and notes on paths without runs and on folders that cannot be read."""
    from capo.runs.reading import find, read

    notes = [f"there is no run in {path}" for path in runs if path.exists() and not find([path])]
    records = []
    for folder in find(runs):
        try:
            records.append(read(folder))
        except UsageError as error:
            notes.append(f"ignored: {error}")
    if not records:
        why = "; ".join(notes)
        raise UsageError(f"{why}; a run folder contains config.json and metrics.jsonl")
    return records, notes


def _write(out: Path, comparison: "Comparison", command: str) -> None:
    from capo.compare.page import report_page
    from capo.compare.plot import plot_curves
    from capo.compare.text import curves_csv, table_csv
    from capo.storage.files import write_atomic

    out.mkdir(parents=True, exist_ok=True)
    # The report is first: it marks the folder as a comparison.
    write_atomic(out / "report.html", report_page(comparison, command))
    write_atomic(
        out / "compare.csv",
        table_csv(comparison.results, comparison.overall, comparison.confidence),
    )
    write_atomic(out / "curves.csv", curves_csv(comparison.curves))
    plot_curves(out / "compare.png", comparison.envs, comparison.curves, comparison.styles)
