"""Injects every fault as often as the table in `support.faults` says. With tests/ on the path:

python -m support.faults                        all faults: about 40 minutes on two cores
python -m support.faults --only sigkill damage  only these; the others keep their last result
python -m support.faults --scale 0.05           a short trial that writes nothing

Writes results/faults.json and the table of docs/reliability.md.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from capo.storage.provenance import machine, versions
from support.faults import FAULTS, NotHereError

ROOT = Path(__file__).resolve().parents[3]
FILE, PAGE = ROOT / "results" / "faults.json", ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
NOT_RUN = "not run"
MAX_FAILURES = 3
"""Failures after which a fault is not injected any more."""
LIMIT = 3600.0
"""Seconds after which a trial counts as hanging."""


class Tally:
    """Counts of a fault's trials; shared by the threads."""

    def __init__(self, name: str, scale: float):
        self.name, self.batch = name, FAULTS[name].batch
        self.target = max(1, math.ceil(FAULTS[name].times * scale))
        self.held, self.running, self.absent = 0, 0, ""
        self.failures: list[str] = []

    def next_batch(self) -> int:
        """The number of injections of the next trial; 0 if enough are done or running."""
        if self.absent or len(self.failures) >= MAX_FAILURES:
            return 0
        times = min(self.batch, self.target - self.held - self.running)
        self.running += times
        return times

    def add(self, times: int, result: dict[str, Any]) -> None:
        """Adds the result of a trial of `times` injections."""
        self.running -= times
        self.held += result["held"]
        self.absent = self.absent or result["absent"]
        self.failures += [result["failed"]] if result["failed"] else []

    def result(self) -> dict[str, Any]:
        """The counts as they are stored."""
        return {"held": self.held, "failures": self.failures, "absent": self.absent}


def run(names: list[str], scale: float, seed: int) -> dict[str, Tally]:
    """Injects the faults, one trial at a time on each core."""
    tallies, lock = {name: Tally(name, scale) for name in names}, threading.Lock()
    calls = iter(range(10**6))

    def work(core: int) -> None:
        while True:
            with lock:
                todo = ((tally, tally.next_batch()) for tally in tallies.values())
                tally, times = next((pair for pair in todo if pair[1] > 0), (None, 0))
                call = next(calls)
            if tally is None:
                return
            began = time.monotonic()
            result = inject(core, tally.name, times, seed + call)
            with lock:
                tally.add(times, result)
            outcome = result["failed"] or result["absent"] or "held"
            took = time.monotonic() - began
            print(f"{tally.name} {tally.held}/{tally.target}: {outcome} ({took:.0f} s)", flush=True)

    threads = [threading.Thread(target=work, args=(c,)) for c in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def inject(core: int, name: str, times: int, seed: int) -> dict[str, Any]:
    """Runs a trial in its own process, pinned to a core."""
    words = [
        sys.executable,
        "-m",
        "support.faults",
        "--trial",
        name,
        "--times",
        str(times),
        "--seed",
        str(seed),
    ]
    pinned = ["taskset", "-c", str(core), *words]
    try:
        done = subprocess.run(pinned, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"held": 0, "failed": f"seed {seed}: no result within {LIMIT:g} s", "absent": ""}
    if done.returncode:
        return {"held": 0, "failed": f"seed {seed}: {done.stderr.strip()[-400:]}", "absent": ""}
    return json.loads(done.stdout.splitlines()[-1])


def trial(name: str, times: int, seed: int) -> dict[str, Any]:
    """Injects a fault in a temporary folder; returns whether the guarantee held."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            held = FAULTS[name].trial(Path(folder), np.random.default_rng(seed), times)
        except AssertionError as error:
            return {"held": 0, "failed": f"seed {seed}: {error}", "absent": ""}
        except NotHereError as error:
            return {"held": 0, "failed": "", "absent": str(error)}
    return {"held": held, "failed": "", "absent": ""}


def table(stored: dict[str, Any]) -> str:
    """The section of the page: a row for each fault, the date and machine, every failure."""
    lines = ["| fault | times | must hold | held |", "|---|---:|---|---|"]
    failures = []
    for name, fault in FAULTS.items():
        result = stored["faults"].get(name, {"held": 0, "failures": [], "absent": ""})
        tried = result["held"] + len(result["failures"])
        cell = "all" if not result["failures"] else f"{result['held']} of {tried}"
        if not tried:
            cell = f"{NOT_RUN}: {result['absent']}" if result["absent"] else NOT_RUN
        lines.append(f"| {fault.what} | {tried or fault.times} | {fault.must} | {cell} |")
        failures += [f"- {fault.what}: {' '.join(text.split())}" for text in result["failures"]]
    said = ["What did not hold:", "", *failures] if failures else []
    return "\n".join([*lines, "", f"{stored['measured']}.", "", *said]).rstrip()


def measured() -> str:
    """The date, the machine and the versions."""
    here = machine()
    packages = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    where = f"{here['platform']}, {here['cores']} cores, Python {here['python']}; {packages}"
    return f"{time.strftime('%Y-%m-%d')}, {where}"


def write(stored: dict[str, Any]) -> None:
    """Writes the results and the section of the page."""
    FILE.write_text(json.dumps(stored, indent=2) + "\n")
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(stored)}\n{END}{rest.split(END)[1]}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trial", choices=FAULTS, help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Injects, prints, writes; the exit code is 1 if a guarantee did not hold."""
    words = arguments()
    if words.trial:
        print(json.dumps(trial(words.trial, words.times, words.seed)))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as store:
        # A shared cache of compiled programs: runs start within seconds.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", store)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        tallies = run(words.only, words.scale, words.seed)
    results = {name: tally.result() for name, tally in tallies.items()}
    stored = {"measured": measured(), "faults": results}
    if words.scale == 1:
        stored["faults"] = {**json.loads(FILE.read_text())["faults"], **results}
        write(stored)
    print(table(stored))
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes")
    return int(any(result["failures"] for result in stored["faults"].values()))


if __name__ == "__main__":
    sys.exit(main())
