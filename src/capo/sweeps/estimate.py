"""Estimates of the time that runs take on this machine, from a few generations on each task.

A generation collects a batch, trains the critic for E epochs and the experts for K · E epochs.
Plain PPO trains each for E epochs; an epoch of the critic and of an expert count alike.
"""

import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capo.config import Config
from capo.errors import UsageError
from capo.methods import method_of
from capo.runs.reading import number, rows
from capo.storage.files import parse_json, write_json
from capo.storage.provenance import versions
from capo.sweeps.jobs import Job
from capo.sweeps.launchers import Local
from capo.sweeps.selection import Run

GENERATIONS = 4
"""Generations of a measurement; the first one is not counted."""
BATCH = Config("-", preset="corrected").batch_size
"""Samples of a generation of a measurement."""


class Speed(NamedTuple):
    """Seconds on one task: start and end of a run, collecting `BATCH` samples, an update."""

    start: float
    collect: float
    update: float

    def seconds(self, config: Config) -> float:
        """Seconds of a run: start + steps / BATCH · (collect + update · (E + K·E) / (2 · 10))."""
        method = method_of(config.algo)
        epochs = config.epochs + method.width(config) * method.depth(config)
        if config.algo == "trpo":
            epochs = 2 * config.epochs
        update = self.update * epochs / (2 * Config.epochs)
        return self.start + config.total_steps / BATCH * (self.collect + update)


def measure_speeds(file: Path | None, runs: Sequence[Run], launcher: Local) -> dict[str, Speed]:
    """The speed on every task of the runs: from the file, or measured and added to the file."""
    kept = _load(file, launcher) if file is not None else {}
    missing = [env for env in dict.fromkeys(run.config.env_id for run in runs) if env not in kept]
    with tempfile.TemporaryDirectory() as folder:
        for env_id in missing:
            kept[env_id] = _measure(env_id, Path(folder), launcher)
    if missing and file is not None:
        write_json(file, {"stamp": _stamp(launcher), "speeds": kept})
    return kept


def _load(file: Path, launcher: Local) -> dict[str, Speed]:
    """Speeds measured on this kind of machine, with these versions and cores."""
    try:
        kept = parse_json(file.read_text("utf-8"))
        if kept["stamp"] != json.loads(json.dumps(_stamp(launcher))):
            return {}
        return {env: Speed(*map(float, speed)) for env, speed in kept["speeds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stamp(launcher: Local) -> dict[str, Any]:
    """The conditions of a measurement."""
    return {
        "places": [sorted(cores) for cores in launcher.core_sets],
        "node": platform.machine(),
        "versions": versions(),
    }


def _measure(env_id: str, folder: Path, launcher: Local) -> Speed:
    """Trains plain PPO for a few generations in all places at once, as the runs will be."""
    sizes = {"preset": "corrected", "total_steps": GENERATIONS * BATCH, "diagnostics": 0}
    config = Config(env_id, algo="ppo", **sizes)
    jobs = [Job(config, folder / f"{env_id}-{index}") for index in range(launcher.places)]
    began = time.monotonic()
    handles = [launcher.submit(job) for job in jobs]
    while any(handle.poll() is None for handle in handles):
        time.sleep(0.05)
    passed = time.monotonic() - began
    for job, handle in zip(jobs, handles, strict=True):
        if handle.poll():
            raise UsageError(f"{env_id} cannot be run: {job.last_line()}")
    counted = [row for job in jobs for row in rows(job.folder)[1:]]
    collect, update = (
        float(np.median([number(row[key]) for row in counted]))
        for key in ("collect_seconds", "update_seconds")
    )
    return Speed(max(0.0, passed - GENERATIONS * (collect + update)), collect, update)
