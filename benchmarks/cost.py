"""What the diagnosis costs at its default cadence: three runs, one after another, on all cores.

python benchmarks/cost.py     train what is missing, then write into docs/diagnostics.md
"""

import subprocess
import sys
from pathlib import Path

from capo import records
from marks import ROOT, fill

RUNS, PAGE = ROOT / "runs" / "cost", ROOT / "docs" / "diagnostics.md"
CASES = (("HalfCheetah-v4", "ppo"), ("HalfCheetah-v4", "capo"), ("Hopper-v4", "ppo"))
"""The cheaper the physics and the update, the larger the share of anything else."""


def train(folder: Path, env: str, algo: str) -> None:
    """A million steps with the default settings."""
    if not (folder / "eval.json").exists():
        words = ["train", env, "--algo", algo, "-n", "1M", "--run-dir", str(folder)]
        subprocess.run([sys.executable, "-m", "capo", *words], check=True)


def main() -> None:
    """Trains, then writes."""
    lines = [
        "| | method | seconds | in the diagnosis | share |",
        "|---|---|---:|---:|---:|",
    ]
    for env, algo in CASES:
        folder = RUNS / f"{env}__{algo}"
        train(folder, env, algo)
        rows = records.rows(folder)
        whole, part = rows[-1]["seconds"], sum(row["diagnose_seconds"] for row in rows)
        cells = (env, f"`{algo}`", f"{whole:.0f}", f"{part:.1f}", f"{part / whole:.1%}")
        lines.append(f"| {' | '.join(cells)} |")
    fill(PAGE, "cost", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
