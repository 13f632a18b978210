"""The picture of a run."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo.config import Config
from capo.model import write_atomic

BLUE, ORANGE, GRAY = "#2166ac", "#e8871e", "#777777"


def summary(path: Path, config: Config, rows: list[dict[str, Any]], title: str) -> None:
    """Draws a run from the rows of metrics.jsonl: return, KL, and where the KL went if known."""
    split = [row for row in rows if row.get("fisher/total") is not None]
    figure = Figure(figsize=(15 if split else 10, 3.6), layout="constrained")
    left, *rest, right = figure.subplots(1, 3 if split else 2)
    figure.suptitle(title)
    _curve(left, rows, "return", BLUE, "mean of the last 100 episodes")
    _mark_warmup(left, rows)
    left.set(xlabel="environment steps", ylabel="episode return", title="Return")
    _curve(right, rows, "expert_kl", GRAY, "mean expert")
    _curve(right, rows, "kl", ORANGE, "the update taken")
    if config.line_search != "off":
        right.axhline(config.delta, color="black", lw=0.8, ls=":", label=f"δ = {config.delta:g}")
    right.set(xlabel="environment steps", ylabel="nats", title="KL of each update", ylim=(0, None))
    for axes in rest:
        signal_and_waste(axes, [row["steps"] for row in split], split)
        axes.set(xlabel="environment steps", title="Where the KL went")
    for axes in (left, *rest, right):
        axes.xaxis.set_major_formatter(lambda x, _: compact(x))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
        axes.legend(frameon=False, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    write_atomic(path, buffer.getvalue())


def signal_and_waste(axes: Axes, at: Sequence[float], rows: list[dict[str, Any]]) -> None:
    """Stacks c² and ‖ε‖²_F over `at`, and draws the alignment over them on an axis of its own."""
    signal, waste = ([row[f"fisher/{name}"] for row in rows] for name in ("signal", "waste"))
    axes.stackplot(
        at, signal, waste, colors=(BLUE, ORANGE), alpha=0.75, labels=("signal c²", "waste ‖ε‖²")
    )
    axes.set(ylabel="c² + ‖ε‖², twice the KL", ylim=(0, None))
    share = axes.twinx()
    share.plot(at, [row["fisher/alignment"] for row in rows], "ko-", ms=3, lw=1.2)
    share.set(ylabel="alignment α (dots)", ylim=(0, 1))
    share.spines["top"].set_visible(False)


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
