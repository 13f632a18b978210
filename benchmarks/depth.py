"""Trains PPO at several depths and writes the tables and pictures of docs/diagnostics.md.

python benchmarks/depth.py                  train what is missing, then write
python benchmarks/depth.py --write-only     only write, from the runs there are
"""

import argparse

import grid
from grid import ROOT

RUNS = ROOT / "runs" / "depth"
ENVS = ("Hopper-v4", "HalfCheetah-v4")
EPOCHS = (2, 4, 6, 10, 15, 20, 40)
SEEDS = (1, 2, 3)


def main() -> None:
    """Trains, then writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-only", action="store_true")
    options = parser.parse_args()
    if not options.write_only:
        words = ["--algo", "ppo", "-n", "1M"]
        grid.train(
            (RUNS / f"{env}__E{e}__{s}", [env, *words, "--epochs", str(e), "--seed", str(s)])
            for s in SEEDS
            for env in ENVS
            for e in reversed(EPOCHS)
        )


if __name__ == "__main__":
    main()
