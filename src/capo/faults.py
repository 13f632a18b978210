"""When a run cannot go on: generation after generation without anything finite to go on with."""

from collections.abc import Iterable

from capo.config import Config

PATIENCE = 3
"""Generations in a row that may keep the incumbent or its critic before the run stops."""
NETWORKS = ("policy", "critic")


class NonFiniteError(RuntimeError):
    """Updates were not finite several times in a row; the text says what, when and what to try."""


def kept_in_a_row(before: int, row: dict[str, float]) -> int:
    """How many generations up to this row had to keep a network as it was."""
    return before + 1 if any(row[f"nonfinite/{name}"] for name in NETWORKS) else 0


def check_kept(config: Config, kept: int, rows: Iterable[dict[str, float]]) -> None:
    """Stops a run that has kept a network too often; `rows` are its last ones."""
    if kept < PATIENCE:
        return
    rows = list(rows)
    found = [f"the {name}" for name in NETWORKS if any(row[f"nonfinite/{name}"] for row in rows)]
    if experts := max(int(row["nonfinite/experts"]) for row in rows):
        found.insert(0, f"{experts} expert{'s' * (experts > 1)}")
    last = int(rows[-1]["generation"])
    raise NonFiniteError(
        f"{config.env_id}: {', '.join(found)} not finite in generations {last - kept + 1} to {last}"
        "; the networks are the last finite ones. Try a lower --learning-rate "
        f"(it is {config.learning_rate:g}) or --max-grad-norm ({config.max_grad_norm:g}), or "
        "smaller observations and rewards (--normalize-obs, --normalize-reward)"
    )
