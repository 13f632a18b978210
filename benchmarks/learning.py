"""Trains the grid behind docs/results.md and writes its table.

python benchmarks/learning.py                  train what is missing, then write the table
python benchmarks/learning.py --table-only     only write the table from the runs there are
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "runs" / "learning"
PAGE = ROOT / "docs" / "results.md"
ENVS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4")
ALGOS = ("ppo", "capo-avg", "capo")
SEEDS = (1, 2, 3)
CLEANRL = {"HalfCheetah-v4": 1443, "Hopper-v4": 2383, "Walker2d-v4": 2288}
"""What CleanRL publishes for its ppo_continuous_action.py."""
BEGIN, END = "<!-- learning: begin -->", "<!-- learning: end -->"


def train(env: str, algo: str, seed: int, cores: Queue) -> None:
    """Trains one run unless it is there already, on a core of its own."""
    folder = RUNS / f"{env}__{algo}__{seed}"
    if (folder / "eval.json").exists():
        return
    core = cores.get()
    try:
        command = ["capo", "train", env, "--algo", algo, "--seed", str(seed)]
        command = [sys.executable, "-m", *command, "-n", "1M", "--run-dir", str(folder)]
        with (RUNS / f"{folder.name}.log").open("w") as log:
            pin = ["taskset", "-c", str(core)]
            subprocess.run(pin + command, stdout=log, stderr=subprocess.STDOUT, check=False)
    finally:
        cores.put(core)


def finals() -> dict[tuple[str, str], list[float]]:
    """Final evaluation returns of the finished runs, by environment and method."""
    found = defaultdict(list)
    for file in sorted(RUNS.glob("*/eval.json")):
        env, algo, _ = file.parent.name.split("__")
        found[env, algo].append(json.loads(file.read_text())["mean"])
    return found


def table() -> str:
    """Mean ± standard error over seeds, a row for each environment."""
    found = finals()
    lines = [
        f"| | {' | '.join(f'`{algo}`' for algo in ALGOS)} | CleanRL's PPO |",
        "|---|" + "---:|" * (len(ALGOS) + 1),
    ]
    for env in ENVS:
        cells = [cell(found[env, algo]) for algo in ALGOS]
        lines.append(f"| {env} | {' | '.join(cells)} | {CLEANRL[env]} |")
    return "\n".join(lines)


def cell(values: list[float]) -> str:
    """1234 ± 56 (n), or that it was not run."""
    if not values:
        return "not run"
    mean, n = sum(values) / len(values), len(values)
    if n == 1:
        return f"{mean:.0f} (1)"
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return f"{mean:.0f} ± {error:.0f} ({n})"


def main() -> None:
    """Trains, then writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table-only", action="store_true")
    options = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    if not options.table_only:
        cores: Queue[int] = Queue()
        for core in sorted(os.sched_getaffinity(0)):
            cores.put(core)
        with ThreadPoolExecutor(cores.qsize()) as pool:
            for seed in SEEDS:
                for env in ENVS:
                    for algo in ALGOS:
                        pool.submit(train, env, algo, seed, cores)
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}")
    print(table())


if __name__ == "__main__":
    main()
