"""Writes all tables and pictures from the runs in results/summaries.

python -m benchmarks.write_results

These are the tables, pictures and page in results/, and the tables of docs/results.md,
docs/arms.md and README.
"""

from benchmarks.documents import DOCS, README, RESULTS, fill_section
from capo.paper.experiments import EXPERIMENTS
from capo.paper.page import markdown, write
from capo.paper.reports import ExperimentReport, build_reports
from capo.paper.tasks import ANT, CHEETAH, HOPPER, HUMANOID, PAPER, WALKER
from capo.report.format import NOTHING
from capo.sweeps.figures import curves_figure
from capo.sweeps.results import Results
from capo.sweeps.store import Store
from capo.sweeps.tables import build_table

PAGE, ARMS_PAGE = DOCS / "results.md", DOCS / "arms.md"
PICTURE = RESULTS / "learning.png"
NAMES = (
    "main",
    "curves",
    "compute",
    "depth",
    "fisher-epochs",
    "correlation",
    "waste",
    "carry",
    "attribution",
    "twins",
    "wider",
    "wider-best",
    "proof",
    "proof-humanoid",
)
"""The experiments of `make reproduce` and `make wider`, and those that use the same runs.

`make bench` has times.
"""
SHOWN = PAPER._replace(envs=(HOPPER, CHEETAH, WALKER, ANT, HUMANOID), steps=1_000_000)
"""The tasks in the picture and the README's table."""
ALGOS = ("ppo", "trpo", "capo-avg", "capo")
CLEANRL = {CHEETAH: 1443, HOPPER: 2383, WALKER: 2288, HUMANOID: 716}
"""Published returns of CleanRL's ppo_continuous_action.py."""


def kept() -> Results:
    """The runs in results/."""
    return Results(Store(RESULTS).results(), PAPER)


def shown(results: Results) -> list[str]:
    """The experiments that have runs."""
    return [name for name in NAMES if results.count(EXPERIMENTS[name]).begun]


def short_table(results: Results) -> str:
    """The README's table: returns after a million steps, a row for each task."""
    main_experiment = EXPERIMENTS["main"]
    made = build_table(main_experiment, main_experiment.layouts[0], Results(results.runs, SHOWN))
    assert made is not None
    heads = [*(f"`{algo}`" for algo in ALGOS), "CleanRL's PPO"]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for env in SHOWN.envs or ():
        cells = [made.entries[(f"`{algo}`",), env].ours for algo in ALGOS]
        lines.append(f"| {env} | {' | '.join(cells)} | {CLEANRL.get(env, NOTHING)} |")
    return "\n".join(lines)


def section(each: ExperimentReport) -> str:
    """The Markdown of an experiment as a section of a page in docs/."""
    command = f"`capo reproduce {each.experiment.name}`; "
    heading, _, rest = markdown(each).partition("\n\n")
    rest = rest.replace(
        f"]({each.experiment.name}.png)", f"](../results/{each.experiment.name}.png)"
    )
    return f"##{heading}\n\n{command}{rest.replace('## ', '#### ')}".rstrip()


def sections(results: Results) -> dict[str, str]:
    """The generated sections of the README, docs/results.md and docs/arms.md."""
    reports = [each for each in build_reports(shown(results), results) if each.tables]
    paper, own = (
        [section(each) for each in reports if (each.experiment.reference is None) is of_paper]
        for of_paper in (True, False)
    )
    return {
        "learning": short_table(results),
        "reproduced": "\n\n".join(paper),
        "arms": "\n\n".join(own),
    }


def main() -> None:
    """Writes everything."""
    results = kept()
    write(RESULTS, shown(results), results, {}, "python -m benchmarks.write_results")
    found = sections(results)
    fill_section(README, "learning", found["learning"])
    fill_section(PAGE, "reproduced", found["reproduced"])
    fill_section(ARMS_PAGE, "arms", found["arms"])
    if drawn := curves_figure(EXPERIMENTS["curves"], Results(results.runs, SHOWN)):
        drawn.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
