"""Writes all that is made from results/: its tables and page, docs/results.md, README, pictures.

python benchmarks/pages.py
"""

import shutil

from capo.format import NOTHING
from capo.paper.experiments import ANT, CHEETAH, EXPERIMENTS, HOPPER, HUMANOID, STEPS, WALKER
from capo.paper.figures import FIGURES
from capo.paper.gathering import Shown, gather
from capo.paper.page import markdown, write
from capo.paper.selection import Selection
from capo.paper.store import Store
from capo.paper.tables import Results, progress, table
from marks import ROOT, fill

RESULTS, PICTURE = ROOT / "results", ROOT / "docs" / "learning.png"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
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
)
"""What `make reproduce` asks for, and what comes with it. Not the time: `make bench` has that."""
WHOLE = Selection()
SHOWN = Selection(envs=(HOPPER, CHEETAH, WALKER, ANT, HUMANOID), steps=STEPS)
"""The tasks of the picture and of the README's table."""
ALGOS = ("ppo", "trpo", "capo-avg", "capo")
CLEANRL = {CHEETAH: 1443, HOPPER: 2383, WALKER: 2288, HUMANOID: 716}
"""What CleanRL publishes for its ppo_continuous_action.py."""


def shown(results: Results) -> list[str]:
    """Those of the experiments that there are runs of."""
    return [name for name in NAMES if progress(EXPERIMENTS[name], WHOLE, results).begun]


def short_table(results: Results) -> str:
    """The README's, of runs of a million steps: a row for each task, ours and CleanRL's."""
    main_experiment = EXPERIMENTS["main"]
    made = table(main_experiment, main_experiment.layouts[0], SHOWN, results)
    assert made is not None
    heads = [*(f"`{algo}`" for algo in ALGOS), "CleanRL's PPO"]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for env in SHOWN.envs or ():
        cells = [made.entries[(f"`{algo}`",), env].ours for algo in ALGOS]
        lines.append(f"| {env} | {' | '.join(cells)} | {CLEANRL.get(env, NOTHING)} |")
    return "\n".join(lines)


def section(each: Shown) -> str:
    """An experiment as its own file has it, as a part of a page."""
    command = f"`capo reproduce {each.experiment.name}`; "
    heading, _, rest = markdown(each).partition("\n\n")
    return f"##{heading}\n\n{command}{rest.replace('## ', '#### ')}".rstrip()


def sections(results: Results) -> dict[str, str]:
    """What stands between the marks of the page, and of the README."""
    found = [section(each) for each in gather(shown(results), WHOLE, results) if each.tables]
    return {"learning": short_table(results), "reproduced": "\n\n".join(found)}


def main() -> None:
    """Writes everything."""
    results = Store(RESULTS).results()
    write(RESULTS, shown(results), WHOLE, results, {}, "python benchmarks/pages.py")
    found = sections(results)
    fill(README, "learning", found["learning"])
    fill(PAGE, "reproduced", found["reproduced"])
    for picture in RESULTS.glob("*.png"):
        shutil.copy(picture, PAGE.parent)
    if drawn := FIGURES["curves"](EXPERIMENTS["curves"], SHOWN, results):
        drawn.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
