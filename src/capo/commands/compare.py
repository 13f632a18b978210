"""capo compare."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.config import UsageError
from capo.format import printable

if TYPE_CHECKING:
    from capo.comparison import Comparison
    from capo.records import Record

OUT = Path("compare")
MARK = b'<meta name="generator" content="capo compare">'


def compare_runs(
    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(metavar="RUN…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = OUT,
    confidence: float = 0.95,
) -> int:
    """Compare runs: a table, learning curves and a report to hand on.

    Example: capo compare runs --out compare

    Args:
        runs: Run folders, or folders that hold run folders, however deep.
        out: The folder to write; an earlier comparison in it is replaced.
        confidence: Of the bootstrap intervals over seeds.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence is {confidence:g}; it must be between 0 and 1")
    if not runs:
        raise UsageError("name run folders, or a folder that holds them: capo compare runs")
    _check_out(out)
    records, notes = _records(runs)
    from capo.comparison import compare
    from capo.comparison.text import table

    found = compare(records, confidence)
    if not found.results:
        raise UsageError("there is nothing to compare: no episode has ended in any of the runs")
    found = found._replace(notes=[*notes, *found.notes])
    print(table(found.results, found.overall, confidence))
    for note in found.notes:
        print(printable(f"note: {note}"))
    words = ["capo", "compare", *map(str, runs)]
    words += ["--out", str(out)] if out != OUT else []
    words += ["--confidence", f"{confidence:g}"] if confidence != 0.95 else []
    _write(out, found, shlex.join(words))
    print(f"\nwritten: {out}/report.html, compare.png, compare.csv, curves.csv")
    return 0


def _records(runs: tuple[Path, ...]) -> tuple[list["Record"], list[str]]:
    """The runs that can be read, and what was found that cannot."""
    from capo.records import find, read

    notes = [f"there is no run in {path}" for path in runs if path.exists() and not find([path])]
    records = []
    for folder in find(runs):
        try:
            records.append(read(folder))
        except UsageError as error:
            notes.append(f"left out: {error}")
    if not records:
        why = "; ".join(notes)
        raise UsageError(f"{why}; a run folder holds config.json and metrics.jsonl")
    return records, notes


def _check_out(out: Path) -> None:
    """Refuses to write into anything but a new or empty folder, or an earlier comparison."""
    from capo.files import check_writable

    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder; choose another --out")
    if out.is_dir() and any(out.iterdir()):
        report = out / "report.html"
        if not report.is_file() or MARK not in report.read_bytes()[:1000]:
            raise UsageError(f"{out} holds something other than a comparison; choose another --out")
    check_writable(out, "; choose another --out")


def _write(out: Path, found: "Comparison", command: str) -> None:
    from capo.comparison.page import page
    from capo.comparison.picture import draw
    from capo.comparison.text import curves_csv, table_csv
    from capo.files import write_atomic

    out.mkdir(parents=True, exist_ok=True)
    # The report goes first: it is what marks the folder as a comparison.
    write_atomic(out / "report.html", page(found, command))
    write_atomic(out / "compare.csv", table_csv(found.results, found.overall, found.confidence))
    write_atomic(out / "curves.csv", curves_csv(found.curves))
    draw(out / "compare.png", found.envs, found.curves, found.looks)
