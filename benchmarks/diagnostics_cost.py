"""The share of the training time that diagnostics take at their default interval.

python -m benchmarks.diagnostics_cost

Trains the missing ones of three runs, one after another on all cores. Writes
results/diagnostics-cost.json and the table of docs/diagnostics.md.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.documents import DOCS, RESULTS, ROOT, fill_section
from capo.runs import reading
from capo.storage.files import write_json

RUNS = ROOT / "runs" / "diagnostics_cost"
FILE, PAGE = RESULTS / "diagnostics-cost.json", DOCS / "diagnostics.md"
CASES = (("HalfCheetah-v4", "ppo"), ("HalfCheetah-v4", "capo"), ("Hopper-v4", "ppo"))
"""Cheap physics and updates, so that the share of diagnostics is large."""


def train(folder: Path, env: str, algo: str) -> None:
    """A million steps with the default settings."""
    if not (folder / "eval.json").exists():
        words = ["train", env, "--algo", algo, "-n", "1M", "--run-dir", str(folder)]
        subprocess.run([sys.executable, "-m", "capo", *words], check=True)


def measure(env: str, algo: str) -> dict[str, Any]:
    """The seconds of a run, and those in its diagnostics."""
    folder = RUNS / f"{env}__{algo}"
    train(folder, env, algo)
    rows = reading.rows(folder)
    diagnostics = sum(row["diagnose_seconds"] for row in rows)
    return {"env": env, "algo": algo, "seconds": rows[-1]["seconds"], "diagnostics": diagnostics}


def table(runs: list[dict[str, Any]]) -> str:
    """One row for each run."""
    lines = ["| task | method | seconds | in diagnostics | share |", "|---|---|---:|---:|---:|"]
    for run in runs:
        whole, part = run["seconds"], run["diagnostics"]
        numbers = f"{whole:.0f} | {part:.1f} | {part / whole:.1%}"
        lines.append(f"| {run['env']} | `{run['algo']}` | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Trains, then writes."""
    runs = [measure(env, algo) for env, algo in CASES]
    write_json(FILE, runs)
    fill_section(PAGE, "cost", table(runs))
    print(table(runs))


if __name__ == "__main__":
    main()
