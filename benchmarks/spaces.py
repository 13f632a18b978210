"""PPO against CAPO outside Gaussian control: trains the grid, draws and tabulates it.

python benchmarks/spaces.py                  train what is missing, then write
python benchmarks/spaces.py --write-only     only write, from the runs there are
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from capo import records
from capo.comparison import compare
from capo.comparison.picture import draw
from capo.config import Config, parse_steps
from capo.envs import make
from capo.paper.display import Display
from capo.paper.launch import places
from capo.paper.schedule import work_off
from capo.paper.selection import Run
from capo.paper.store import Store
from capo.registry import import_module_of
from capo.statistics import standard_error
from marks import NOT_RUN, ROOT, fill

STORE = Store(ROOT / "runs" / "spaces")
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


def runs_of(task: Task, algo: str) -> list[Run]:
    """One for each seed."""
    name = task.env.replace("/", "-").replace(":", "-")
    words = (task.env, "--algo", algo, "-n", task.steps, *task.words.split())
    config = Config(task.env, algo=algo, total_steps=parse_steps(task.steps))
    return [
        Run(f"{name}__{algo}__{seed}", config, (*words, "--seed", str(seed)))
        for seed in range(1, task.seeds + 1)
    ]


def train() -> dict[str, str]:
    """Trains what is missing; the runs that failed, and why."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    )
    STORE.open()
    done = STORE.results()
    every = [run for task in TASKS for algo in ALGOS for run in runs_of(task, algo)]
    missing = [run for run in every if run.name not in done]
    at_once = places(None)
    with Display(Console(), STORE, {}, len(at_once)).running() as display:
        return work_off(STORE, missing, at_once, display).failed


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
    done = STORE.results()
    for task in TASKS:
        name = task.env.removeprefix("tasks:")
        every = [runs_of(task, algo) for algo in ALGOS]
        found = [[STORE.folder(run) for run in runs if run.name in done] for runs in every]
        cells = [cell(at_the_end(runs)) for runs in found]
        cells += [cell(on_the_way(runs)) for runs in found]
        start = f"| {name} | {task.actions} | {task.steps} | {random_return(task):.1f} |"
        lines.append(f"{start} {' | '.join(cells)} |")
    return "\n".join(lines)


def at_the_end(runs: list[Path]) -> np.ndarray:
    """The mean return of the evaluation of each run."""
    return np.array([records.read(run).score.value for run in runs])


def on_the_way(runs: list[Path]) -> np.ndarray:
    """The training return, averaged over each run: how soon it was learned."""
    return np.array([records.read(run).curve("return")[1].mean() for run in runs])


def cell(values: np.ndarray) -> str:
    """12.3 ± 4.5 (n), or that it was not run."""
    if not len(values):
        return NOT_RUN
    return f"{values.mean():.1f} ± {standard_error(values):.1f} ({len(values)})"


def main() -> None:
    """Trains, then writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-only", action="store_true")
    failed = {} if parser.parse_args().write_only else train()
    found = compare([records.read(run) for run in records.find([STORE.runs])], CONFIDENCE)
    draw(PICTURE, found.envs, found.curves, found.looks)
    text = table()
    fill(PAGE, "spaces", text)
    print(text)
    if failed:
        sys.exit("\n".join(f"failed: {name}: {why}" for name, why in failed.items()))


if __name__ == "__main__":
    main()
