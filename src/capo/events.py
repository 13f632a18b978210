"""TensorBoard event files, with the names that people of the field look for."""

from pathlib import Path

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


class Events:
    """Writes the rows of a run as scalars over environment steps."""

    def __init__(self, folder: Path):
        self._writer = SummaryWriter(str(folder))

    def log(self, row: dict[str, int | float | None]) -> None:
        """Adds a row; what has no value is left out."""
        steps = int(row["steps"] or 0)
        if row["seconds"]:
            self._writer.add_scalar("charts/SPS", steps / row["seconds"], steps)
        for key, value in row.items():
            if value is not None and key not in NOT_A_CURVE:
                name = key if "/" in key else NAMES.get(key, f"update/{key}")
                self._writer.add_scalar(name, value, steps)

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()
