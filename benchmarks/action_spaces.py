"""PPO and CAPO on tasks with discrete and composite actions.

python -m benchmarks.action_spaces                train the missing runs, then write
python -m benchmarks.action_spaces --write-only   only write, from the finished runs

Writes results/action-spaces (summaries and picture) and the table of docs/results.md.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.documents import DOCS, NOT_RUN, RESULTS, ROOT, fill_section
from capo.compare import compare
from capo.compare.plot import plot_curves
from capo.config import Config, parse_steps
from capo.envs.backends import make
from capo.envs.registry import import_module_of
from capo.runs import reading
from capo.statistics import standard_error
from capo.sweeps.launchers import Local
from capo.sweeps.selection import Run, settle_for_task
from capo.sweeps.store import Store
from capo.sweeps.working import train_missing

STORE = Store(RESULTS / "action-spaces")
PICTURE, PAGE = STORE.out / "curves.png", DOCS / "results.md"
CONFIDENCE = 0.95
ALGOS = ("ppo", "capo")
RANDOM_EPISODES = 100


class Task(NamedTuple):
    """A task, the number of steps and seeds, and flags beyond the defaults."""

    env: str
    actions: str
    steps: str
    seeds: int
    changes: Mapping[str, Any] = MappingProxyType({"num_steps": 128})


PIXELS = MappingProxyType(
    {"num_steps": 128, "epochs": 4, "minibatches": 8, "entropy_coef": 0.01, "diagnostics": 0}
)
TASKS = (
    Task("CartPole-v1", "Discrete(2)", "100k", 5),
    Task("Acrobot-v1", "Discrete(3)", "200k", 5),
    Task("benchmarks.point_mass:Thrusters-v0", "MultiBinary(4)", "200k", 5),
    Task("benchmarks.point_mass:Joystick-v0", "MultiDiscrete(5, 5)", "200k", 5),
    Task("MinAtar/Breakout-v1", "Discrete(3), pixels", "300k", 3, PIXELS),
    Task("LunarLander-v3", "Discrete(4)", "500k", 5),
)


def runs_of(task: Task, algo: str) -> list[Run]:
    """The runs of a method on a task, one for each seed."""
    import_module_of(task.env)
    label = f"{task.env}__{algo}".replace("/", "-").replace(":", "-")
    config = Config(task.env, algo, parse_steps(task.steps)).replace(**task.changes)
    config = settle_for_task(config)
    return [Run(label, config.replace(seed=seed)) for seed in range(1, task.seeds + 1)]


def train() -> dict[str, str]:
    """Trains the missing runs; returns the reason for each that failed."""
    # The training processes import benchmarks.point_mass.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    STORE.create()
    done = STORE.results()
    every = [run for task in TASKS for algo in ALGOS for run in runs_of(task, algo)]
    missing = [run for run in every if run.key not in done]
    return train_missing(Console(), STORE, missing, Local(), {}).failed


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
    """A row for each task: the final return, and the mean training return over the run."""
    lines = [
        "| | actions | steps | random | `ppo`, final | `capo`, final "
        "| `ppo`, mean over training | `capo`, mean over training |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    results = STORE.results()
    for task in TASKS:
        name = task.env.removeprefix("benchmarks.point_mass:")
        found = [
            [results[run.key] for run in runs_of(task, algo) if run.key in results]
            for algo in ALGOS
        ]
        cells = [cell([run.score for run in runs]) for runs in found]
        cells += [cell([float(np.mean(run.curve["return"])) for run in runs]) for runs in found]
        start = f"| {name} | {task.actions} | {task.steps} | {random_return(task):.1f} |"
        lines.append(f"{start} {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: list[float]) -> str:
    """Mean, standard error and number of runs, such as 12.3 ± 4.5 (5)."""
    if not values:
        return NOT_RUN
    return f"{np.mean(values):.1f} ± {standard_error(np.array(values)):.1f} ({len(values)})"


def main() -> None:
    """Trains, then writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-only", action="store_true")
    failed = {} if parser.parse_args().write_only else train()
    found = compare([reading.read(run) for run in reading.find([STORE.runs])], CONFIDENCE)
    plot_curves(PICTURE, found.envs, found.curves, found.styles)
    text = table()
    fill_section(PAGE, "spaces", text)
    print(text)
    if failed:
        sys.exit("\n".join(f"failed: {name}: {why}" for name, why in failed.items()))


if __name__ == "__main__":
    main()
