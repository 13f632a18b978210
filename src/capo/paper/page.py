"""Output of `capo reproduce`: an HTML page, and Markdown, CSV and PNG files."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from capo.paper.contradictions import CONTRADICTIONS
from capo.paper.experiments import EXPERIMENTS
from capo.paper.reports import ExperimentReport, build_reports, runs_used
from capo.report.format import compact, count
from capo.report.webpage import read_source, render, trained_with
from capo.storage.files import write_atomic
from capo.sweeps.formats import to_csv, to_markdown
from capo.sweeps.keys import RunKey
from capo.sweeps.results import Results, RunCount
from capo.sweeps.selection import Selection, runs_of
from capo.sweeps.summaries import Summary

TITLE = "The paper's experiments, run again"


def write(
    out: Path,
    names: Sequence[str],
    results: Results,
    failures: Mapping[str, str],
    command: str,
) -> None:
    """Writes index.html, and for each experiment NAME.md, NAME.csv and NAME.png if it has them."""
    reports = build_reports(names, results)
    out.mkdir(parents=True, exist_ok=True)
    whole = index_page(names, reports, results, failures, command)
    write_atomic(out / "index.html", whole)
    for name, each in zip(names, reports, strict=True):
        write_atomic(out / f"{name}.md", markdown(each).encode())
        if each.tables:
            write_atomic(out / f"{name}.csv", to_csv(each.tables))
        if each.figure is not None:
            write_atomic(out / f"{name}.png", each.figure)


def markdown(each: ExperimentReport) -> str:
    """Tables and claims of an experiment as Markdown, with a link to its figure."""
    experiment = each.experiment
    parts = [
        f"# {experiment.title}",
        f"{experiment.where}; {each.runs}.",
        experiment.about,
    ]
    if each.figure is not None:
        parts.append(f"![{experiment.title}]({experiment.name}.png)")
    for table in each.tables:
        parts += [f"## {table.title}", to_markdown(table).rstrip()]
    groups = each.checked_claims
    if groups:
        parts.append("## Claims of the paper")
    for (statement, where), group in groups.items():
        lines = [f"- **{v.word}**, {claim.name}: {v.numbers}" for claim, v in group]
        parts += [f"{statement} *{where}*", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def index_page(
    names: Sequence[str],
    reports: Sequence[ExperimentReport],
    results: Results,
    failures: Mapping[str, str],
    command: str,
) -> bytes:
    """The HTML page, with the experiments in this order."""
    runs = runs_used(names, results)
    return render(
        "paper/index.html",
        read_source("compare/page.css") + read_source("paper/page.css"),
        generator="capo reproduce",
        title=TITLE,
        lead=_lead(names, set(runs), results.selection),
        footer=origins(list(runs.values())),
        reports=reports,
        contradictions=CONTRADICTIONS,
        failures=failures,
        command=command,
        base64=lambda data: base64.b64encode(data).decode(),
    )


def _lead(names: Sequence[str], runs: set[RunKey], selection: Selection) -> str:
    """A sentence about the number of runs and the selection."""
    done = RunCount.of(
        runs, {run.key for run in runs_of([EXPERIMENTS[name] for name in names], selection)}
    )
    parts = [f"{done.done} of {count(done.wanted, 'run')}"]
    parts += [f"{done.others} more with other seeds or numbers of steps"] if done.others else []
    parts += [f"{compact(selection.steps)} steps each" if selection.steps else "the paper's steps"]
    parts += [count(selection.seeds, "seed") if selection.seeds else "the paper's seeds"]
    parts += [f"preset {selection.preset}"]
    parts += [f"only {', '.join(each)}" for each in (selection.envs, selection.algos) if each]
    if selection.sizes:
        sizes = ", ".join(f"{name} {value}" for name, value in selection.sizes)
        parts.append(f"sizes different from the paper's ({sizes})")
    if selection.only_env:
        parts.append(
            "one task of each experiment, and of a swept setting the default and one other value"
        )
    return "; ".join(parts) + "."


def origins(runs: Sequence[Summary]) -> list[str]:
    """Lines with all versions, commits, cores and dates of some runs."""
    versions = (run.origin.get("versions") for run in runs)
    lines = [trained_with(versions)]
    for what, key in (("Commit", "commit"), ("Cores of a run", "cores")):
        values = sorted({str(run.origin[key]) for run in runs if run.origin.get(key)})
        lines += [f"{what}: {', '.join(values)}."] if values else []
    dates = sorted({str(run.origin["date"]) for run in runs if run.origin.get("date")})
    if dates:
        lines.append(f"Run from {dates[0]} to {dates[-1]}." if dates[1:] else f"Run {dates[0]}.")
    return lines
