"""TensorBoard event files, with the names that people of the field look for."""

import time
from pathlib import Path
from typing import Any, Protocol

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog  # pyright: ignore
from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore

from capo.files import naming

NAMES = {
    "return": "charts/episodic_return",
    "length": "charts/episodic_length",
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
"""The scalar of a key of metrics.jsonl; what is not named here goes under update/."""
NOT_A_CURVE = ("generation", "steps", "seconds")


Row = dict[str, int | float | None]


class Sink(Protocol):
    """Where the rows of a run go besides metrics.jsonl."""

    def log(self, row: Row) -> None:
        """Takes a row."""
        ...

    def close(self, status: str) -> None:
        """Takes leave; `status` is finished, interrupted or failed."""
        ...


def scalars(row: Row) -> dict[str, float]:
    """A row under the names that people know, without what is no curve or has no value."""
    found = {
        key if "/" in key else NAMES.get(key, f"update/{key}"): value
        for key, value in row.items()
        if value is not None and key not in NOT_A_CURVE
    }
    if seconds := row.get("seconds"):
        found["charts/SPS"] = (row["steps"] or 0) / seconds
    return found


class Events:
    """Writes the rows of a run as scalars over environment steps.

    In this thread: tensorboardX's SummaryWriter has another one for it, and waits for that for ever
    once it has died of a full disk.
    """

    def __init__(self, folder: Path, start: int | None = None):
        """With `start`, what another writer has left of later steps is not shown any more."""
        self._folder = folder
        with naming(folder):
            self._writer = EventsWriter(str(folder / "events"))
        if start is not None:
            self._write(step=start + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, row: Row) -> None:
        """Adds a row; what has no value is left out."""
        values = [Summary.Value(tag=tag, simple_value=v) for tag, v in scalars(row).items()]
        self._write(step=int(row["steps"] or 0), summary=Summary(value=values))

    def _write(self, **content: Any) -> None:
        with naming(self._folder):
            self._writer.write_event(Event(wall_time=time.time(), **content))
            self._writer.flush()

    def close(self, status: str) -> None:
        """Takes leave of the file."""
        with naming(self._folder):
            self._writer.close()
