"""TensorBoard event files, with the names that people of the field look for."""

from pathlib import Path
from typing import Protocol

from tensorboardX import SummaryWriter

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
    """Writes the rows of a run as scalars over environment steps."""

    def __init__(self, folder: Path, start: int | None = None):
        """With `start`, what another writer has left of later steps is not shown any more."""
        self._writer = SummaryWriter(str(folder), purge_step=None if start is None else start + 1)

    def log(self, row: Row) -> None:
        """Adds a row; what has no value is left out."""
        for name, value in scalars(row).items():
            self._writer.add_scalar(name, value, int(row["steps"] or 0))

    def close(self, status: str) -> None:
        """Writes what is left."""
        self._writer.close()
