"""The throughput of parallel runs with one core each, relative to consecutive runs on all cores.

python -m benchmarks.parallel_runs
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np

from capo.paper.launch import Cores, core_sets, last_line, start_training
from capo.runs.reading import number, rows

ENVS, ALGOS, STEPS, ROUNDS = ("HalfCheetah-v4",), ("ppo", "capo"), "61440", 2
WORDS = ["-n", STEPS, "--warmup", "0", "--diagnostics", "0", "--eval-episodes", "0"]
TIMES = ("collect_seconds", "update_seconds")


def seconds(folders: list[Path]) -> list[float]:
    """The time of each run, without startup and compilation."""
    return [sum(number(row[key]) for row in rows(folder) for key in TIMES) for folder in folders]


def trained(words: list[str], cores: list[Cores], parent: Path) -> list[Path]:
    """Trains one run on each set of cores, in parallel; the run folders."""
    folders = [Path(tempfile.mkdtemp(dir=parent)) / "run" for _ in cores]
    processes = [
        start_training([*words, "--run-dir", str(folder)], place, folder.with_suffix(".log"))
        for folder, place in zip(folders, cores, strict=True)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("\n".join(last_line(folder.with_suffix(".log")) for folder in folders))
    return folders


def main() -> None:
    """Prints the seconds of one run per core, in parallel and consecutively."""
    own, shared = core_sets(None), core_sets(1)
    print("| | parallel, one core each | consecutive, all cores | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        for env, algo in itertools.product(ENVS, ALGOS):
            words, found = [env, "--algo", algo, *WORDS], []
            for _ in range(ROUNDS):
                at_once = max(seconds(trained(words, own, Path(name))))
                in_turn = len(own) * seconds(trained(words, shared, Path(name)))[0]
                found.append((at_once, in_turn))
            at_once, in_turn = np.median(found, axis=0)
            ratios = [turn / once for once, turn in found]
            print(
                f"| {env} `{algo}` | {at_once:.1f} s | {in_turn:.1f} s | "
                f"{np.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
