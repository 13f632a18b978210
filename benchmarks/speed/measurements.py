"""Measurements on disk, and statistics of them."""

import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.driver import Timings
from capo.core.devices import available_cores
from capo.storage.files import write_json
from capo.storage.provenance import PACKAGES, commit, versions

PEERS = ("torch", "stable-baselines3", "sb3-contrib", "sbx-rl")
Measurements = dict[str, dict[str, Any]]
"""For each comparison the machine, the date, and the timings under `found`."""


def stamp() -> dict[str, Any]:
    """The machine and the versions. Measurements with different stamps are not comparable."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
    return {
        "cpu": cpu,
        "cores": available_cores(),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), **versions((*PACKAGES, *PEERS))},
    }


def save(folder: Path, comparison: str, found: Timings) -> None:
    """Writes the timings of a comparison."""
    here = {"stamp": stamp(), "date": time.strftime("%Y-%m-%d"), "commit": commit()}
    write_json(folder / f"{comparison}.json", {**here, "found": found})


def load(folder: Path) -> Measurements:
    """All comparisons in the folder."""
    files = sorted(folder.glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def samples(measured: Measurements, comparison: str, name: str, key: str = "seconds") -> np.ndarray:
    """One number of each generation; empty if the program was not run."""
    rounds = measured.get(comparison, {}).get("found", {}).get(name, {}).get("rounds", [])
    return np.array([generation[key] for some in rounds for generation in some])


def median(
    measured: Measurements, comparison: str, name: str, key: str = "seconds"
) -> float | None:
    """The median over all generations, None if there are none."""
    values = samples(measured, comparison, name, key)
    return float(np.median(values)) if len(values) else None


def fastest(measured: Measurements, comparison: str, names: tuple[str, ...]) -> str:
    """The program with the smallest median; the first if none was run."""
    found = {name: median(measured, comparison, name) for name in names}
    run = {name: value for name, value in found.items() if value is not None}
    return min(run, key=run.__getitem__) if run else names[0]


def torch_threads(measured: Measurements) -> int:
    """The number of threads with which Stable-Baselines3 was fastest; 1 if not measured."""
    counts = tuple(measured.get("threads", {}).get("found", {})) or ("1",)
    return int(fastest(measured, "threads", counts))


def errors(measured: Measurements) -> list[str]:
    """One line for each program that failed."""
    return [
        f"{name} ({comparison}): {one['error']}"
        for comparison, of in measured.items()
        for name, one in of["found"].items()
        if "error" in one
    ]
