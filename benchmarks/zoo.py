"""What every row of the zoo reaches: trains the missing runs, and writes docs/zoo.md.

python -m benchmarks.zoo [TASK …]    (`make zoo`)
"""

import sys

import gymnasium as gym
import numpy as np

from benchmarks.documents import DOCS, RESULTS, fill_section
from capo import zoo
from capo.config import Config
from capo.errors import UsageError
from capo.report.format import NOTHING, compact, with_error
from capo.statistics import standard_error
from capo.sweeps.launchers import Local
from capo.sweeps.schedule import ScheduleState, train_all
from capo.sweeps.selection import Run, settle_for_task
from capo.sweeps.store import Store

ALGOS, SEEDS = ("ppo", "capo"), (1, 2, 3)
PAGE = DOCS / "zoo.md"
PUBLISHED = {
    "CartPole-v1": (500.0, "100k"),
    "Acrobot-v1": (-73.5, "1M"),
    "MountainCar-v0": (-110.4, "1M"),
    "MountainCarContinuous-v0": (88.3, "20k"),
    "Pendulum-v1": (-172.2, "100k"),
    "LunarLander-v3": (242.1, "1M"),
    "LunarLanderContinuous-v3": (270.9, "1M"),
    "BipedalWalker-v3": (213.3, "5M"),
    "HalfCheetah-v4": (5819.1, "1M"),
    "Hopper-v4": (2410.4, "1M"),
    "Walker2d-v4": (3478.8, "1M"),
    "Ant-v4": (1327.2, "1M"),
    "Swimmer-v4": (281.6, "1M"),
}
"""Return and steps of PPO in RL Zoo's benchmark.md: one run each, of an older version of a task
where there is none of this one."""


def runs(names: list[str]) -> list[Run]:
    """The runs behind the rows of some tasks, first those of the first seed."""
    wanted = []
    for seed in SEEDS:
        for task in names:
            for algo in ALGOS:
                row = zoo.row(task, algo)
                config = Config(task, algo, preset="auto", seed=seed, diagnostics=0, **row)
                settled = settle_for_task(config)
                wanted.append(Run(f"{task.replace('/', '-')}__{algo}", settled))
    return wanted


def table(store: Store, names: list[str]) -> str:
    """A row for each task: what ours reach, and what RL Zoo reports."""
    found = store.results()
    lines = ["| task | steps | `ppo` | `capo` | RL Zoo's PPO |", "|---|---:|---:|---:|---:|"]
    for task in names:
        cells = []
        for algo in ALGOS:
            keys = [run.key for run in runs([task]) if run.config.algo == algo]
            scores = np.array([found[key].score for key in keys if key in found])
            said = "not run"
            if len(scores):
                said = f"{with_error(scores.mean(), float(standard_error(scores)))} ({len(scores)})"
            cells.append(said)
        steps = compact(zoo.row(task, "ppo")["total_steps"])
        theirs, after = PUBLISHED.get(task, (None, ""))
        published = NOTHING if theirs is None else f"{theirs:g} ({after})"
        lines.append(f"| {task} | {steps} | {' | '.join(cells)} | {published} |")
    return "\n".join(lines)


def show(state: ScheduleState, ended: Run | None) -> None:
    """Prints a line for each run that ended."""
    if ended is not None:
        score = state.done[ended.key].score if ended.key in state.done else state.failed[ended.name]
        print(f"[{len(state.done)}/{state.total}] {ended.name}: {score}", flush=True)


def main(words: list[str]) -> None:
    """Trains what is missing of the named tasks, or of all, and writes the page."""
    if unknown := set(words) - set(zoo.tasks()):
        raise UsageError(f"no row of the zoo: {', '.join(sorted(unknown))}")
    known = [task for task in zoo.tasks(own=True) if task in gym.registry]
    store = Store(RESULTS / "zoo")
    store.create()
    done = store.results()
    wanted = runs([task for task in known if task in words or not words])
    train_all(store, [run for run in wanted if run.key not in done], Local(), show)
    fill_section(PAGE, "zoo", table(store, known))


if __name__ == "__main__":
    main(sys.argv[1:])
