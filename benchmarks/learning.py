"""Trains the grid behind docs/results.md and writes its tables and picture.

python benchmarks/learning.py                  train what is missing, then write
python benchmarks/learning.py --write-only     only write, from the runs there are
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import grid
from capo import records
from grid import ROOT

RUNS = ROOT / "runs" / "learning"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
PICTURE = ROOT / "docs" / "learning.png"
ENVS = {"HalfCheetah-v4": 3, "Hopper-v4": 3, "Walker2d-v4": 6}
"""Seeds for each task; Walker2d's returns spread so widely that three would say little."""
ALGOS = {"ppo": "#777777", "capo-avg": "#e8871e", "capo": "#2166ac"}
CLEANRL = {"HalfCheetah-v4": 1443, "Hopper-v4": 2383, "Walker2d-v4": 2288}
"""What CleanRL publishes for its ppo_continuous_action.py."""


def table() -> str:
    """Mean ± standard error over seeds, a row for each environment."""
    lines = [
        f"| | {' | '.join(f'`{algo}`' for algo in ALGOS)} | CleanRL's PPO |",
        "|---|" + "---:|" * (len(ALGOS) + 1),
    ]
    for env in ENVS:
        cells = [grid.returns(grid.finished(RUNS, f"{env}__{algo}__*")) for algo in ALGOS]
        lines.append(f"| {env} | {' | '.join(cells)} | {CLEANRL[env]} |")
    return "\n".join(lines)


def draw() -> None:
    """Training return against steps: mean over seeds, shaded by one standard error."""
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    for axes, env in zip(figure.subplots(1, len(ENVS)), ENVS, strict=True):
        for algo, color in ALGOS.items():
            curves = [curve(folder) for folder in grid.finished(RUNS, f"{env}__{algo}__*")]
            if not curves:
                continue
            steps, returns = curves[0][0], np.array([found for _, found in curves])
            mean, error = returns.mean(axis=0), returns.std(axis=0, ddof=1) / len(curves) ** 0.5
            axes.plot(steps, mean, color=color, label=algo)
            axes.fill_between(steps, mean - error, mean + error, color=color, alpha=0.2, lw=0)
        axes.set(title=f"{env}, {ENVS[env]} seeds", xlabel="million environment steps")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    first = figure.axes[0]
    first.set_ylabel("training return, last 100 episodes")
    first.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE, dpi=110)


def curve(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Steps in millions and return of a run; not a number until an episode has ended."""
    rows = records.rows(folder)
    steps = np.array([row["steps"] / 1e6 for row in rows])
    return steps, np.array([math.nan if row["return"] is None else row["return"] for row in rows])


def main() -> None:
    """Trains, then writes."""
    if not grid.write_only(__doc__):
        grid.train(
            (
                RUNS / f"{env}__{algo}__{seed}",
                [env, "--algo", algo, "--seed", str(seed), "-n", "1M"],
            )
            for env, seeds in ENVS.items()
            for seed in range(1, seeds + 1)
            for algo in ALGOS
        )
    for page in PAGES:
        grid.fill(page, "learning", table())
    draw()
    print(table())


if __name__ == "__main__":
    main()
