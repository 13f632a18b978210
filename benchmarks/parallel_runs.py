"""The throughput of parallel runs with one core each, relative to consecutive runs on all cores.

python -m benchmarks.parallel_runs
"""

import itertools
import tempfile
import time
from pathlib import Path

import numpy as np

from capo.config import Config
from capo.runs.reading import number, rows
from capo.sweeps.jobs import Job
from capo.sweeps.launchers import Local

ENVS, ALGOS, STEPS, ROUNDS = ("HalfCheetah-v4",), ("ppo", "capo"), 61440, 2
TIMES = ("collect_seconds", "update_seconds")


def seconds(folders: list[Path]) -> list[float]:
    """The time of each run, without startup and compilation."""
    return [sum(number(row[key]) for row in rows(folder) for key in TIMES) for folder in folders]


def trained(config: Config, launcher: Local, parent: Path) -> list[Path]:
    """Trains one run in each place, in parallel; the run folders."""
    jobs = [Job(config, Path(tempfile.mkdtemp(dir=parent)) / "run") for _ in launcher.core_sets]
    handles = [launcher.submit(job) for job in jobs]
    while any(handle.poll() is None for handle in handles):
        time.sleep(0.05)
    if any(handle.poll() for handle in handles):
        raise SystemExit("\n".join(job.last_line() for job in jobs))
    return [job.folder for job in jobs]


def main() -> None:
    """Prints the seconds of one run per core, in parallel and consecutively."""
    own, shared = Local(), Local(1)
    print("| | parallel, one core each | consecutive, all cores | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        for env, algo in itertools.product(ENVS, ALGOS):
            config = Config(env, algo, STEPS, diagnostics=0, warmup=0.0)
            measured: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                at_once = max(seconds(trained(config, own, Path(name))))
                in_turn = own.places * seconds(trained(config, shared, Path(name)))[0]
                measured.append((at_once, in_turn))
            at_once, in_turn = np.median(measured, axis=0)
            ratios = [turn / once for once, turn in measured]
            print(
                f"| {env} `{algo}` | {at_once:.1f} s | {in_turn:.1f} s | "
                f"{np.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
