"""Injects every fault of tests/faults as often as its table says, and writes docs/reliability.md.

python benchmarks/reliability.py                        all of them: about 40 minutes on two cores
python benchmarks/reliability.py --only sigkill damage  these once more; the rest as it was found
python benchmarks/reliability.py --scale 0.05           a short try, of which nothing is written
"""

import argparse
import importlib
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

from capo.provenance import machine, versions
from marks import NOT_RUN, ROOT, fill

TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))
FAULTS = importlib.import_module("faults").FAULTS
FOUND = ROOT / "runs" / "reliability"
PAGE = ROOT / "docs" / "reliability.md"
ENOUGH = 3
"""Failures after which a fault is not tried any more."""
LIMIT = 3600.0


class Tally:
    """How often a fault was injected and what came of it; shared by the workers."""

    def __init__(self, name: str, scale: float):
        self.name, self.batch = name, FAULTS[name].batch
        self.target = max(1, math.ceil(FAULTS[name].times * scale))
        self.held, self.asked, self.absent = 0, 0, ""
        self.failures: list[str] = []

    def next(self) -> int:
        """How many the next call is to inject; 0 if enough are done or under way."""
        if self.absent or len(self.failures) >= ENOUGH:
            return 0
        times = min(self.batch, self.target - self.held - self.asked)
        self.asked += times
        return times

    def take(self, times: int, result: dict[str, Any]) -> None:
        """Takes what a call said that was to inject `times`."""
        self.asked -= times
        self.held += result["held"]
        self.absent = self.absent or result["absent"]
        self.failures += [result["failed"]] if result["failed"] else []

    def found(self) -> dict[str, Any]:
        """For the page."""
        return {"held": self.held, "failures": self.failures, "absent": self.absent}


def run(names: list[str], scale: float, seed: int) -> dict[str, Tally]:
    """Injects the faults, one on each core at a time."""
    tallies, lock = {name: Tally(name, scale) for name in names}, threading.Lock()
    calls = iter(range(10**6))

    def work(core: int) -> None:
        while True:
            with lock:
                todo = ((tally, tally.next()) for tally in tallies.values())
                tally, times = next((pair for pair in todo if pair[1] > 0), (None, 0))
                call = next(calls)
            if tally is None:
                return
            began = time.monotonic()
            result = inject(core, tally.name, times, seed + call)
            with lock:
                tally.take(times, result)
            said = result["failed"] or result["absent"] or "held"
            took = time.monotonic() - began
            print(f"{tally.name} {tally.held}/{tally.target}: {said} ({took:.0f} s)", flush=True)

    threads = [threading.Thread(target=work, args=(c,)) for c in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def inject(core: int, name: str, times: int, seed: int) -> dict[str, Any]:
    """One call of a trial, in a process of its own on a core of its own."""
    words = [sys.executable, __file__, "--trial", name, "--times", str(times), "--seed", str(seed)]
    pinned = ["taskset", "-c", str(core), *words]
    try:
        done = subprocess.run(pinned, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        said = f"seed {seed}: nothing came of it within {LIMIT:g} s"
        return {"held": 0, "failed": said, "absent": ""}
    if done.returncode:
        return {"held": 0, "failed": f"seed {seed}: {done.stderr.strip()[-400:]}", "absent": ""}
    return json.loads(done.stdout.splitlines()[-1])


def trial(name: str, times: int, seed: int) -> dict[str, Any]:
    """Injects a fault in a folder of its own; what came of it."""
    absent = importlib.import_module("faults").NotHereError
    with tempfile.TemporaryDirectory() as folder:
        try:
            held = FAULTS[name].trial(Path(folder), np.random.default_rng(seed), times)
        except AssertionError as error:
            return {"held": 0, "failed": f"seed {seed}: {error}", "absent": ""}
        except absent as error:
            return {"held": 0, "failed": "", "absent": str(error)}
    return {"held": held, "failed": "", "absent": ""}


def table(found: dict[str, dict[str, Any]]) -> str:
    """The block of the page: a row for each fault, then where that was, then every failure."""
    lines = ["| fault | times | must hold | held |", "|---|---:|---|---|"]
    failures = []
    for name, fault in FAULTS.items():
        result = found.get(name, {"held": 0, "failures": [], "absent": ""})
        tried = result["held"] + len(result["failures"])
        cell = "all" if not result["failures"] else f"{result['held']} of {tried}"
        if not tried:
            cell = f"{NOT_RUN}: {result['absent']}" if result["absent"] else NOT_RUN
        lines.append(f"| {fault.what} | {tried or fault.times} | {fault.must} | {cell} |")
        failures += [f"- {fault.what}: {' '.join(text.split())}" for text in result["failures"]]
    here = machine()
    packages = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    where = f"{here['platform']}, {here['cores']} cores, Python {here['python']}; {packages}"
    said = ["What did not hold:", "", *failures] if failures else []
    return "\n".join([*lines, "", f"{time.strftime('%Y-%m-%d')}, {where}.", "", *said]).rstrip()


def stored() -> dict[str, dict[str, Any]]:
    """What was found by the last whole run of each fault."""
    return {file.stem: json.loads(file.read_text()) for file in FOUND.glob("*.json")}


def asked() -> argparse.Namespace:
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
    """Injects, prints, writes; 1 if anything did not hold."""
    words = asked()
    if words.trial:
        print(json.dumps(trial(words.trial, words.times, words.seed)))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as store:
        # One store of compiled programs, so that a run begins within seconds.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", store)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        found = {name: t.found() for name, t in run(words.only, words.scale, words.seed).items()}
    if words.scale == 1:
        FOUND.mkdir(parents=True, exist_ok=True)
        for name, result in found.items():
            (FOUND / f"{name}.json").write_text(json.dumps(result))
        found = stored()
        fill(PAGE, "faults", table(found))
    print(table(found))
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes")
    return int(any(result["failures"] for result in found.values()))


if __name__ == "__main__":
    sys.exit(main())
