"""What was measured, as it is kept on the disk, and numbers from it."""

import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from capo.envs import available_cores
from capo.files import write_json
from capo.provenance import PACKAGES, commit, versions
from contest.driver import Found

PEERS = ("torch", "stable-baselines3", "sb3-contrib", "sbx-rl")
Measured = dict[str, dict[str, Any]]
"""Of each heat: where and when it was measured, and what was `found`."""


def stamp() -> dict[str, Any]:
    """Where a measurement is from; what has another one is not comparable."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
    return {
        "cpu": cpu,
        "cores": available_cores(),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), **versions((*PACKAGES, *PEERS))},
    }


def keep(folder: Path, heat: str, found: Found) -> None:
    """Writes what was found beside the rest."""
    here = {"stamp": stamp(), "date": time.strftime("%Y-%m-%d"), "commit": commit()}
    write_json(folder / f"{heat}.json", {**here, "found": found})


def kept(folder: Path) -> Measured:
    """All heats that there are."""
    files = sorted(folder.glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def samples(measured: Measured, heat: str, name: str, key: str = "seconds") -> np.ndarray:
    """One number of every generation; empty for what was not run."""
    rounds = measured.get(heat, {}).get("found", {}).get(name, {}).get("rounds", [])
    return np.array([generation[key] for some in rounds for generation in some])


def median(measured: Measured, heat: str, name: str, key: str = "seconds") -> float | None:
    """Of all generations, None if there are none."""
    values = samples(measured, heat, name, key)
    return float(np.median(values)) if len(values) else None


def fastest(measured: Measured, heat: str, names: tuple[str, ...]) -> str:
    """The one of these with the least median; the first if none was run."""
    found = {name: median(measured, heat, name) for name in names}
    run = {name: value for name, value in found.items() if value is not None}
    return min(run, key=run.__getitem__) if run else names[0]


def torch_threads(measured: Measured) -> int:
    """How many threads suit Stable-Baselines3 best here; one as long as that was not measured."""
    counts = tuple(measured.get("threads", {}).get("found", {})) or ("1",)
    return int(fastest(measured, "threads", counts))


def errors(measured: Measured) -> list[str]:
    """What was not run, and why, in a line each."""
    return [
        f"{name} ({heat}): {one['error']}"
        for heat, of in measured.items()
        for name, one in of["found"].items()
        if "error" in one
    ]
