"""Reading run folders, also those that are running, damaged or incomplete."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capo.config import upgrade
from capo.errors import UsageError
from capo.storage.locks import NAME as LOCK
from capo.storage.locks import is_held

MARKS = {"config.json", "metrics.jsonl"}
"""Files by which a run folder is recognised."""
MOST_BYTES = 2**28
"""Largest file that is read: more than the metrics of a billion steps."""
LARGEST = 1e30
"""Largest number that is read: beyond it, squares and plots overflow."""


class Score(NamedTuple):
    """The final performance of a run."""

    value: float
    """Mean return; NaN if no episode ended."""
    error: float
    """Standard error over the episodes of the evaluation."""
    evaluated: bool
    """Whether the value is of an evaluation, not the last training return."""

    @property
    def mark(self) -> str:
        """A star for a training return, nothing for an evaluation."""
        return "*" if not self.evaluated and not math.isnan(self.value) else ""


class SavedRun(NamedTuple):
    """The content of a run folder."""

    path: Path
    config: dict[str, Any]
    manifest: dict[str, Any]
    rows: list[dict[str, Any]]
    evaluation: dict[str, Any]

    @property
    def env_id(self) -> str:
        """Id of the environment."""
        return self.config["env_id"]

    @property
    def algo(self) -> str:
        """Name of the method."""
        return self.config["algo"]

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.config["seed"]

    @property
    def steps(self) -> int:
        """Environment steps done."""
        return int(self.rows[-1]["steps"]) if self.rows else 0

    @property
    def asked(self) -> float:
        """Environment steps asked for."""
        return number(self.config.get("total_steps"))

    @property
    def status(self) -> str:
        """running, finished, interrupted, failed, or killed: running without a process."""
        said = str(self.manifest.get("status", "unknown"))
        gone = said == "running" and (self.path / LOCK).exists() and not is_held(self.path)
        return "killed" if gone else said

    @property
    def seconds(self) -> float:
        """Wall time of the run, or up to the last row if it has not ended."""
        last = self.rows[-1].get("seconds") if self.rows else None
        return number(self.manifest.get("wall_seconds", last))

    @property
    def started(self) -> datetime | None:
        """Start time, in the time zone of the run."""
        try:
            start = datetime.fromisoformat(str(self.manifest.get("started")))
            start.timestamp()  # Raises for a year out of range.
        except (ValueError, OverflowError, OSError):
            return None
        return start

    @property
    def began(self) -> float:
        """Start time in seconds since the epoch; −∞ if it is unknown."""
        return self.started.timestamp() if self.started else -math.inf

    @property
    def score(self) -> Score:
        """The evaluation, or the last training return without one."""
        value = number(self.evaluation.get("mean"))
        if not math.isnan(value):
            return Score(value, number(self.evaluation.get("standard_error")), True)
        returns = self.curve("return")[1]
        return Score(float(returns[-1]) if len(returns) else math.nan, math.nan, False)

    def curve(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a key of metrics.jsonl, without missing values."""
        by_step = {float(row["steps"]): number(row.get(key)) for row in self.rows}
        pairs = sorted((step, value) for step, value in by_step.items() if not math.isnan(value))
        steps, values = np.array(pairs, float).reshape(-1, 2).T
        return steps, values


def find(paths: Iterable[Path]) -> list[Path]:
    """Every run folder at or below the paths, without duplicates, in order of path and name."""
    folders: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no run or folder {path}")
        for folder in _below(path):
            folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def _below(path: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(path):
        if set(files) >= MARKS:
            folders.clear()
            yield Path(root)
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def read(folder: Path) -> SavedRun:
    """Reads a run folder; raises `UsageError`, with the name of the file, for a damaged one.

    Manifest and evaluation may be missing.
    """
    config = upgrade(read_object(folder / "config.json"))
    for key, kind in (("env_id", str), ("algo", str), ("seed", int)):
        if not isinstance(config.get(key), kind):
            raise UsageError(f"{folder / 'config.json'} has no {key}")
    manifest, result = (
        read_object(file) if (file := folder / name).exists() else {}
        for name in ("manifest.json", "eval.json")
    )
    return SavedRun(
        path=folder, config=config, manifest=manifest, rows=rows(folder), evaluation=result
    )


def evaluation(folder: Path) -> float:
    """The mean return of a run's evaluation; NaN without one."""
    file = folder / "eval.json"
    return number(read_object(file).get("mean")) if file.is_file() else math.nan


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, without a last line that is incomplete."""
    file = folder / "metrics.jsonl"
    *lines, rest = _text(file).split("\n")
    parsed = []
    for index, line in enumerate(lines, 1):
        row = _parsed(line)
        if not _is_row(row):
            raise UsageError(f"{file} is damaged: line {index} is not a row of metrics")
        parsed.append(row)
    row = _parsed(rest)
    return [*parsed, row] if _is_row(row) else parsed


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and not math.isnan(number(row.get("steps")))


def number(value: Any) -> float:
    """The value as a float; NaN if it is no number or too large."""
    good = isinstance(value, int | float) and abs(value) < LARGEST
    return float(value) if good else math.nan


def read_object(file: Path) -> dict[str, Any]:
    """A JSON object of a run folder."""
    content = _parsed(_text(file))
    if not isinstance(content, dict):
        raise UsageError(f"{file} is damaged: it is not a JSON object")
    return content


def _text(file: Path) -> str:
    try:
        if not file.is_file():
            raise UsageError(f"{file} is not a file")
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} cannot be read: it has more than {MOST_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Violations(NamedTuple):
    """Generations that violated Theorem 1."""

    generations: int
    """Generations with several experts."""
    pool: int
    """Violations by the pool."""
    network: int
    """Violations by the network."""
    shortened: int
    """Violations by a network whose step the line search shortened, which reduces its gain."""


def count_violations(rows: Sequence[Mapping[str, Any]]) -> Violations:
    """Counts the violations of Theorem 1 in the rows of a run."""
    wide = [row for row in rows if "consensus/violations" in row]
    network = [row for row in wide if number(row["consensus/violations"]) > 0]
    return Violations(
        len(wide),
        sum(number(row["consensus/q_violations"]) > 0 for row in wide),
        len(network),
        sum(number(row.get("step_scale")) < 1 for row in network),
    )
