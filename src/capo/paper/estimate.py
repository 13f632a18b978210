"""How long runs will take on this machine: a few generations on each task, and a model of the rest.

A generation collects a batch, fits the critic for E epochs and trains the experts for K · E of
them; plain PPO's update is one of each, so half of it is taken for an epoch's worth of either.
"""

import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capo.config import Config, UsageError
from capo.files import parse_json, write_json
from capo.methods import method_of
from capo.paper.launch import Cores, last_line, start
from capo.paper.selection import Run
from capo.provenance import versions
from capo.records import number, rows

GENERATIONS = 4
"""Of which the first is not counted."""


class Speed(NamedTuple):
    """Seconds on one task: to start and end a run, to collect a batch, to update plain PPO."""

    start: float
    collect: float
    update: float

    def of(self, config: Config) -> float:
        """Of a whole run: start + G · (collect + update · (E + K·E) / (2 · 10))."""
        method = method_of(config.algo)
        epochs = config.epochs + method.width(config) * method.depth(config)
        if config.algo == "trpo":
            epochs = 2 * config.epochs
        update = self.update * epochs / (2 * Config.epochs)
        return self.start + config.generations * (self.collect + update)


def speeds(file: Path | None, runs: Sequence[Run], places: Sequence[Cores]) -> dict[str, Speed]:
    """The speed on every task of these runs, measured where the file does not have it yet."""
    kept = _kept(file, places) if file is not None else {}
    missing = [env for env in dict.fromkeys(run.config.env_id for run in runs) if env not in kept]
    with tempfile.TemporaryDirectory() as folder:
        for env_id in missing:
            kept[env_id] = _measured(env_id, Path(folder) / env_id, places)
    if missing and file is not None:
        write_json(file, {"stamp": _stamp(places), "speeds": kept})
    return kept


def _kept(file: Path, places: Sequence[Cores]) -> dict[str, Speed]:
    """What was measured here, with these versions and as many runs at once."""
    try:
        found = parse_json(file.read_text("utf-8"))
        if found["stamp"] != json.loads(json.dumps(_stamp(places))):
            return {}
        return {env: Speed(*map(float, speed)) for env, speed in found["speeds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stamp(places: Sequence[Cores]) -> dict[str, Any]:
    return {
        "places": [sorted(place) for place in places],
        "node": platform.machine(),
        "versions": versions(),
    }


def _measured(env_id: str, folder: Path, places: Sequence[Cores]) -> Speed:
    """Plain PPO for a few generations, in all places at once, as the runs will be."""
    words = ["--algo", "ppo", "-n", str(GENERATIONS * Config(env_id).batch_size)]
    words += ["--diagnostics", "0", "--eval-episodes", "1", "--checkpoint-every", "0"]
    folders = [folder.with_name(f"{folder.name}-{index}") for index, _ in enumerate(places)]
    going = [
        start([env_id, *words, "--run-dir", str(each)], place, each.with_suffix(".log"))
        for each, place in zip(folders, places, strict=True)
    ]
    began = time.monotonic()
    codes = [process.wait() for process in going]
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
