"""TensorBoard event files, with the usual names of scalars."""

import time
from pathlib import Path
from typing import Any, Protocol

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog  # pyright: ignore
from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore

from capo.storage.files import errors_naming

NAMES = {
    "return": "charts/episodic_return",
    "length": "charts/episodic_length",
    "success_rate": "charts/success_rate",
    "learning_rate": "charts/learning_rate",
    **{
        name: f"losses/{name}"
        for name in (
            "policy_loss",
            "value_loss",
            "entropy",
            "approx_kl",
            "clipfrac",
            "explained_variance",
        )
    },
    **{name: f"time/{name}" for name in ("collect_seconds", "update_seconds", "diagnose_seconds")},
}
"""Scalar names by key of metrics.jsonl; other keys go under update/."""
NOT_SCALARS = ("generation", "steps", "seconds")


Row = dict[str, int | float | None]


class Sink(Protocol):
    """A destination of the rows of a run, besides metrics.jsonl."""

    def log(self, row: Row) -> None:
        """Adds a row."""
        ...

    def close(self, status: str) -> None:
        """Closes the sink; `status` is finished, interrupted or failed."""
        ...


def scalars(row: Row) -> dict[str, float]:
    """The scalars of a row by name, without missing values."""
    named = {
        key if "/" in key else NAMES.get(key, f"update/{key}"): value
        for key, value in row.items()
        if value is not None and key not in NOT_SCALARS
    }
    if seconds := row.get("seconds"):
        named["charts/SPS"] = (row["steps"] or 0) / seconds
    return named


class Events:
    """Writes the rows of a run as scalars over environment steps.

    The events are written in this thread. The SummaryWriter of tensorboardX uses another one, and
    waits for it for ever once it has failed on a full disk.
    """

    def __init__(self, folder: Path, start: int | None = None):
        """With `start`, TensorBoard hides the events of earlier writers after this step."""
        self._folder = folder
        with errors_naming(folder):
            self._writer = EventsWriter(str(folder / "events"))
        if start is not None:
            self._write(step=start + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, row: Row) -> None:
        """Adds a row, without missing values."""
        values = [Summary.Value(tag=tag, simple_value=v) for tag, v in scalars(row).items()]
        self._write(step=int(row["steps"] or 0), summary=Summary(value=values))

    def _write(self, **content: Any) -> None:
        with errors_naming(self._folder):
            self._writer.write_event(Event(wall_time=time.time(), **content))
            self._writer.flush()

    def close(self, status: str) -> None:
        """Closes the file."""
        with errors_naming(self._folder):
            self._writer.close()
