"""All experiments as one HTML file, and as files of their own beside it."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from capo.files import write_atomic
from capo.format import compact, count
from capo.paper.gathering import Shown, gather, runs_shown
from capo.paper.sections import sections
from capo.paper.selection import Selection, runs_of
from capo.paper.summaries import Summary
from capo.paper.tables import NOT_RUN, Progress, Results, to_csv, to_markdown
from capo.webpage import made_with, render

TITLE = "The paper's experiments, run again"


def write(
    out: Path,
    names: Sequence[str],
    chosen: Selection,
    results: Results,
    failures: Mapping[str, str],
    command: str,
) -> None:
    """index.html, and for each experiment NAME.md, and NAME.csv and NAME.png if it has them."""
    shown = gather(names, chosen, results)
    out.mkdir(parents=True, exist_ok=True)
    whole = page(names, shown, chosen, results, failures, command)
    write_atomic(out / "index.html", whole)
    for name, each in zip(names, shown, strict=True):
        write_atomic(out / f"{name}.md", markdown(each).encode())
        if each.tables:
            write_atomic(out / f"{name}.csv", to_csv(each.tables))
        if each.picture is not None:
            write_atomic(out / f"{name}.png", each.picture)


def markdown(each: Shown) -> str:
    """An experiment's tables and claims, with a link to its picture."""
    experiment = each.experiment
    parts = [
        f"# {experiment.title}",
        f"{experiment.where}; {each.progress}.",
        experiment.about,
    ]
    if each.picture is not None:
        parts.append(f"![{experiment.title}]({experiment.name}.png)")
    for found in each.tables:
        parts += [f"## {found.title}", to_markdown(found).rstrip()]
    groups = each.grouped(without=NOT_RUN)
    if groups:
        parts.append("## What the paper claims")
    for (said, where), group in groups.items():
        lines = [f"- **{v.word}**, {claim.name}: {v.numbers}" for claim, v in group]
        parts += [f"{said} *{where}*", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def page(
    names: Sequence[str],
    shown: Sequence[Shown],
    chosen: Selection,
    results: Results,
    failures: Mapping[str, str],
    command: str,
) -> bytes:
    """The experiments in this order, with the command that made the page."""
    runs = runs_shown(names, chosen, results)
    return render(
        "capo reproduce",
        TITLE,
        _lead(names, runs, chosen),
        sections(shown, failures, command),
        origins(runs),
        _read("capo.comparison") + _read("capo.paper"),
    )


def _lead(names: Sequence[str], runs: Sequence[Summary], chosen: Selection) -> str:
    """How many runs there are, of how many, and what was chosen."""
    wanted = {run.name for run in runs_of(names, chosen)}
    done = Progress.of({run.name for run in runs}, wanted)
    parts = [f"{done.done} of {count(done.wanted, 'run')}"]
    parts += [f"{done.others} more with other seeds or lengths"] if done.others else []
    steps = f"{compact(chosen.steps)} steps each" if chosen.steps else "the paper's lengths"
    seeds = count(chosen.seeds, "seed") if chosen.seeds else "the paper's seeds"
    parts += [steps, seeds, f"preset {chosen.preset}"]
    parts += [f"only {', '.join(each)}" for each in (chosen.envs, chosen.algos) if each]
    if chosen.sizes:
        sizes = ", ".join(f"{name} {value}" for name, value in chosen.sizes)
        parts.append(f"other sizes than the paper's ({sizes})")
    if chosen.brief:
        parts.append(
            "of each experiment one task, and of what is swept the usual value and one other"
        )
    return "; ".join(parts) + "."


def origins(runs: Sequence[Summary]) -> list[str]:
    """Versions, commits and dates of some runs; several of one thing are all named."""
    versions = (run.origin.get("versions") for run in runs)
    lines = [made_with(versions, "It is not known what the runs were made with.")]
    for what, key in (("Commit", "commit"), ("Cores of a run", "cores")):
        found = sorted({str(run.origin[key]) for run in runs if run.origin.get(key)})
        lines += [f"{what}: {', '.join(found)}."] if found else []
    dates = sorted({str(run.origin["date"]) for run in runs if run.origin.get("date")})
    if dates:
        lines.append(f"Run from {dates[0]} to {dates[-1]}." if dates[1:] else f"Run {dates[0]}.")
    return lines


def _read(package: str) -> str:
    return (resources.files(package) / "page.css").read_text("utf-8")
