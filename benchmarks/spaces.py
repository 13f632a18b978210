"""PPO against CAPO outside Gaussian control: trains the grid, draws and tabulates it.

python benchmarks/spaces.py                  train what is missing, then write
python benchmarks/spaces.py --write-only     only write, from the runs there are
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

import grid
from capo import records
from capo.comparison import compare
from capo.comparison.picture import draw
from capo.envs import make
from capo.registry import import_module_of
from capo.statistics import standard_error
from grid import ROOT

RUNS = ROOT / "runs" / "spaces"
PAGE = ROOT / "docs" / "results.md"
PICTURE = ROOT / "docs" / "spaces.png"
CONFIDENCE = 0.95
ALGOS = ("ppo", "capo")
RANDOM_EPISODES = 100


class Task(NamedTuple):
    """What is trained, for how long, and with what beyond the defaults."""

    env: str
    actions: str
    steps: str
    seeds: int
    words: str = "--num-steps 128"


PIXELS = "--num-steps 128 --epochs 4 --minibatches 8 --entropy-coef 0.01 --diagnostics 0"
TASKS = (
    Task("CartPole-v1", "Discrete(2)", "100k", 5),
    Task("Acrobot-v1", "Discrete(3)", "200k", 5),
    Task("tasks:Thrusters-v0", "MultiBinary(4)", "200k", 5),
    Task("tasks:Joystick-v0", "MultiDiscrete(5, 5)", "200k", 5),
    Task("MinAtar/Breakout-v1", "Discrete(3), pixels", "300k", 3, PIXELS),
    Task("LunarLander-v3", "Discrete(4)", "500k", 5),
)


def folder(task: Task, algo: str, seed: int) -> Path:
    name = task.env.replace("/", "-").replace(":", "-")
    return RUNS / f"{name}__{algo}__{seed}"


def train() -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    )
    grid.train(
        (
            folder(task, algo, seed),
            [task.env, "--algo", algo, "--seed", str(seed), "-n", task.steps, *task.words.split()],
        )
        for task in TASKS
        for seed in range(1, task.seeds + 1)
        for algo in ALGOS
    )


def random_return(task: Task) -> float:
    """The mean return of uniformly random actions."""
    import_module_of(task.env)
    env = make(task.env, 8, 0)
    env.action_space.seed(0)
    env.reset()
    total, returns = np.zeros(8), []
    while len(returns) < RANDOM_EPISODES:
        step = env.step(np.stack([env.action_space.sample() for _ in range(8)]))
        total += step.reward
        done = step.terminated | step.truncated
        returns += total[done].tolist()
        total[done] = 0.0
    env.close()
    return float(np.mean(returns[:RANDOM_EPISODES]))


def table() -> str:
    lines = [
        "| | actions | steps | random | `ppo`, at the end | `capo`, at the end "
        "| `ppo`, on the way | `capo`, on the way |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for task in TASKS:
        name = task.env.removeprefix("tasks:")
        found = [finished(task, algo) for algo in ALGOS]
        cells = [cell(grid.evaluations(runs)) for runs in found]
        cells += [cell(on_the_way(runs)) for runs in found]
        start = f"| {name} | {task.actions} | {task.steps} | {random_return(task):.1f} |"
        lines.append(f"{start} {' | '.join(cells)} |")
    return "\n".join(lines)


def finished(task: Task, algo: str) -> list[Path]:
    return grid.finished(RUNS, folder(task, algo, 0).name.removesuffix("0") + "*")


def on_the_way(runs: list[Path]) -> np.ndarray:
    """The training return, averaged over each run: how soon it was learned."""
    return np.array([records.read(run).curve("return")[1].mean() for run in runs])


def cell(values: np.ndarray) -> str:
    """12.3 ± 4.5 (n), or that it was not run."""
    if not len(values):
        return grid.NOT_RUN
    return f"{values.mean():.1f} ± {standard_error(values):.1f} ({len(values)})"


def main() -> None:
    """Trains, then writes."""
    if not grid.write_only(__doc__):
        train()
    found = compare([records.read(run) for run in records.find([RUNS])], CONFIDENCE)
    draw(PICTURE, found.envs, found.curves, found.looks)
    text = table()
    grid.fill(PAGE, "spaces", text)
    print(text)


if __name__ == "__main__":
    main()
