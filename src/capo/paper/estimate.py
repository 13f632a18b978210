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
from capo.paper.launch import Cores, last_line, start_training
from capo.paper.selection import Run
from capo.runs.reading import number, rows
from capo.storage.files import parse_json, write_json
from capo.storage.provenance import versions

GENERATIONS = 4
"""Generations of a measurement; the first one is not counted."""


class Speed(NamedTuple):
    """Seconds on one task: start and end of a run, collecting a batch, an update of plain PPO."""

    start: float
    collect: float
    update: float

    def seconds(self, config: Config) -> float:
        """Seconds of a run: start + G · (collect + update · (E + K·E) / (2 · 10))."""
        method = method_of(config.algo)
        epochs = config.epochs + method.width(config) * method.depth(config)
        if config.algo == "trpo":
            epochs = 2 * config.epochs
        update = self.update * epochs / (2 * Config.epochs)
        return self.start + config.generations * (self.collect + update)


def measure_speeds(
    file: Path | None, runs: Sequence[Run], core_sets: Sequence[Cores]
) -> dict[str, Speed]:
    """The speed on every task of the runs: from the file, or measured and added to the file."""
    kept = _load(file, core_sets) if file is not None else {}
    missing = [env for env in dict.fromkeys(run.config.env_id for run in runs) if env not in kept]
    with tempfile.TemporaryDirectory() as folder:
        for env_id in missing:
            kept[env_id] = _measure(env_id, Path(folder) / env_id, core_sets)
    if missing and file is not None:
        write_json(file, {"stamp": _stamp(core_sets), "speeds": kept})
    return kept


def _load(file: Path, core_sets: Sequence[Cores]) -> dict[str, Speed]:
    """Speeds measured on this kind of machine, with these versions and cores."""
    try:
        found = parse_json(file.read_text("utf-8"))
        if found["stamp"] != json.loads(json.dumps(_stamp(core_sets))):
            return {}
        return {env: Speed(*map(float, speed)) for env, speed in found["speeds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stamp(core_sets: Sequence[Cores]) -> dict[str, Any]:
    """The conditions of a measurement."""
    return {
        "places": [sorted(cores) for cores in core_sets],
        "node": platform.machine(),
        "versions": versions(),
    }


def _measure(env_id: str, folder: Path, core_sets: Sequence[Cores]) -> Speed:
    """Trains plain PPO for a few generations on all core sets at once, as the runs will be."""
    words = ["--algo", "ppo", "-n", str(GENERATIONS * Config(env_id).batch_size)]
    words += ["--diagnostics", "0", "--eval-episodes", "1", "--checkpoint-every", "0"]
    folders = [folder.with_name(f"{folder.name}-{index}") for index, _ in enumerate(core_sets)]
    processes = [
        start_training([env_id, *words, "--run-dir", str(each)], cores, each.with_suffix(".log"))
        for each, cores in zip(folders, core_sets, strict=True)
    ]
    began = time.monotonic()
    codes = [process.wait() for process in processes]
    passed = time.monotonic() - began
    if any(codes):
        failed = folders[next(i for i, code in enumerate(codes) if code)]
        raise UsageError(f"{env_id} cannot be run: {last_line(failed.with_suffix('.log'))}")
    counted = [row for each in folders for row in rows(each)[1:]]
    collect, update = (
        float(np.median([number(row[key]) for row in counted]))
        for key in ("collect_seconds", "update_seconds")
    )
    return Speed(max(0.0, passed - GENERATIONS * (collect + update)), collect, update)
