"""The picture of a run."""

import io
import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo.config import Config
from capo.model import write_atomic

BLUE, ORANGE, GRAY = "#2166ac", "#e8871e", "#777777"


def summary(path: Path, config: Config, rows: list[dict[str, Any]], title: str) -> None:
    """Draws return against steps, and the KL of every update, from the rows of metrics.jsonl."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(title)
    _curve(left, rows, "return", BLUE, "mean of the last 100 episodes")
    _mark_warmup(left, rows)
    left.set(xlabel="environment steps", ylabel="episode return", title="Return")
    _curve(right, rows, "expert_kl", GRAY, "mean expert")
    _curve(right, rows, "kl", ORANGE, "the update taken")
    if config.line_search != "off":
        right.axhline(config.delta, color="black", lw=0.8, ls=":", label=f"δ = {config.delta:g}")
    right.set(xlabel="environment steps", ylabel="nats", title="KL of each update", ylim=(0, None))
    for axes in (left, right):
        axes.xaxis.set_major_formatter(lambda x, _: compact(x))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
        axes.legend(frameon=False, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    write_atomic(path, buffer.getvalue())


def _mark_warmup(axes: Axes, rows: list[dict[str, Any]]) -> None:
    ended = next((row["steps"] for row in rows if not row["warmup"]), None)
    if ended is not None and rows[0]["warmup"]:
        axes.axvline(ended, color=GRAY, lw=0.8, ls="--", label="warmup ends")


def _curve(axes: Axes, rows: list[dict[str, Any]], key: str, color: str, label: str) -> None:
    found = [(row["steps"], row[key]) for row in rows if row.get(key) is not None]
    if found:
        steps, values = zip(*found, strict=True)
        axes.plot(steps, values, color=color, lw=1.4, label=label)


def compact(value: float) -> str:
    """1500 as 1.5k, 1_000_000 as 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if math.fabs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
