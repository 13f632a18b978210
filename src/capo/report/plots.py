"""Plots of a run and of a diagnostic study."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo.config import Config
from capo.report.format import compact
from capo.storage.files import write_atomic

BLUE, ORANGE, GRAY = "#2166ac", "#e8871e", "#777777"


def plot_run(path: Path, config: Config, rows: list[dict[str, Any]], title: str) -> None:
    """Plots rows of metrics.jsonl: return, KL, and signal and waste if they were measured."""
    split = [row for row in rows if row.get("fisher/total") is not None]
    figure = Figure(figsize=(15 if split else 10, 3.6), layout="constrained")
    left, *rest, right = figure.subplots(1, 3 if split else 2)
    figure.suptitle(title, parse_math=False)
    _curve(left, rows, "return", BLUE, "mean of the last 100 episodes")
    if any(row.get("eval/return") is not None for row in rows):
        _curve(left, rows, "eval/return", ORANGE, "evaluations")
    _mark_warmup(left, rows)
    left.set(xlabel="environment steps", ylabel="episode return", title="Return")
    _curve(right, rows, "expert_kl", GRAY, "mean expert")
    _curve(right, rows, "kl", ORANGE, "the update taken")
    if config.line_search != "off":
        right.axhline(config.delta, color="black", lw=0.8, ls=":", label=f"δ = {config.delta:g}")
    right.set(xlabel="environment steps", ylabel="nats", title="KL of each update", ylim=(0, None))
    for axes in rest:
        plot_signal_and_waste(axes, [row["steps"] for row in split], split)
        axes.set(xlabel="environment steps", title="Where the KL went")
    for axes in (left, *rest, right):
        axes.xaxis.set_major_formatter(lambda x, _: compact(x))
        tidy(axes)
    save_png(figure, path)


def plot_signal_and_waste(axes: Axes, at: Sequence[float], rows: list[dict[str, Any]]) -> None:
    """Stacked c² and ‖ε‖²_F over `at`, with the alignment on a second axis."""
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
    points = [(row["steps"], row[key]) for row in rows if row.get(key) is not None]
    if points:
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, color=color, lw=1.4, label=label)


def plot_study(path: Path, study: dict[str, Any], title: str) -> None:
    """Plots a study of `capo diagnose`: depth, width, the plane of the updates, damping."""
    figure = Figure(figsize=(12, 9), layout="constrained")
    depth, width, plane, damping = figure.subplots(2, 2).flat
    figure.suptitle(title, parse_math=False)
    _depth_curve(depth, study["depths"])
    _width_curve(width, study)
    _plane(plane, study["plane"], study["depth"])
    _damping_curve(damping, study["ladder"], study["damping_share"])
    for axes in (depth, width, plane, damping):
        tidy(axes)
    save_png(figure, path)


def _depth_curve(axes: Axes, rows: list[dict[str, Any]]) -> None:
    epochs = [row["epochs"] for row in rows]
    for key, color, label in (("waste", ORANGE, "waste ‖ε‖²"), ("signal", BLUE, "signal c²")):
        _with_error(axes, epochs, rows, key, color, label)
    axes.set(xscale="log", yscale="log", title="Depth: one update, E epochs")
    axes.set(xlabel="epochs E", ylabel="c² and ‖ε‖², twice their KL")
    axes.set_xticks(epochs, [str(e) for e in epochs])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    share = axes.twinx()
    share.plot(epochs, [row["alignment"] for row in rows], "k.--", lw=1)
    share.set(ylabel="alignment α (dashed)", ylim=(0, 1))
    share.spines["top"].set_visible(False)


def _width_curve(axes: Axes, study: dict[str, Any]) -> None:
    rows, depth, apart = study["widths"], study["depth"], study["apart"]
    widths = [row["experts"] for row in rows]
    _with_error(axes, widths, rows, "waste_ratio", ORANGE, "shuffles of a batch")
    predicted = [row["waste_ratio_predicted"] for row in rows]
    axes.plot(widths, predicted, "k:", lw=1, label="1/K + (1 − 1/K) ρ_ε")
    if apart:
        rho, batches = apart["rho_waste"], study["batches"]
        _with_error(axes, [batches], [apart], "waste_ratio", BLUE, "batches")
        axes.plot(widths, [1 / k + (1 - 1 / k) * rho for k in widths], "k:", lw=1)
    axes.plot(widths, [1 / k for k in widths], color=GRAY, lw=0.8, ls="--", label="1/K")
    axes.set(xlabel="experts K", title=f"Width: waste of the average, E = {depth}")
    axes.set(ylabel="‖ε̄‖² / mean ‖ε_k‖²", ylim=(0, 1.05))
    axes.set_xticks(widths)


def _plane(axes: Axes, plane: dict[str, Any], depth: int) -> None:
    """Figure 1(a) of the paper with real updates, in Fisher norms: equal KL is a circle."""
    signal, waste = np.array(plane["signal"]), np.array(plane["waste"])
    for index, (x, y) in enumerate(zip(waste, signal, strict=True)):
        label = "experts Δ_k" if index == 0 else None
        axes.plot([0, x], [0, y], color=GRAY, lw=0.7, alpha=0.6)
        axes.plot([0, x], [y, y], color=ORANGE, lw=0.7, ls="--", alpha=0.6)
        axes.plot(x, y, "o", color=GRAY, ms=4, label=label)
    axes.plot([0, 0], [0, 1.25 * max(signal.max(), 0)], color=BLUE, lw=1.5, label="F⁻¹g")
    axes.annotate(
        "", (waste.mean(), signal.mean()), (0, 0), arrowprops={"arrowstyle": "->", "lw": 1.6}
    )
    axes.plot(waste.mean(), signal.mean(), "k*", ms=11, label="their average")
    radius = math.sqrt(2 * plane["kl"])
    angle = np.linspace(0, 2 * np.pi, 200)
    ring = (radius * np.cos(angle), radius * np.sin(angle))
    axes.plot(
        *ring, color="black", lw=0.8, ls=":", label=f"KL {plane['kl']:.4f}, the mean expert's"
    )
    axes.set(title=f"The updates at E = {depth}, in Fisher lengths", aspect="equal")
    axes.set(
        xlabel=f"main axis of the waste ({plane['share_of_waste']:.0%} of it)", ylabel="signal c"
    )
    axes.set(xlim=(-0.35 * radius, 1.15 * radius), ylim=(-0.15 * radius, 1.15 * radius))


def _damping_curve(axes: Axes, rows: list[dict[str, Any]], used: float) -> None:
    shares = [row["share"] for row in rows]
    _with_error(axes, shares, rows, "alignment", "black", "alignment α")
    axes.set(xscale="log", xlabel="damping, share of F's largest eigenvalue", ylim=(0, None))
    axes.set(ylabel="alignment α", title="What the alignment depends on")
    axes.axvline(used, color=GRAY, lw=0.8, ls="--", label="the damping used")
    if "gain_elsewhere" in rows[0]:
        gain = axes.twinx()
        _with_error(gain, shares, rows, "gain_elsewhere", BLUE, "")
        gain.set_ylabel("gain of a unit step on other batches", color=BLUE)
        gain.spines["top"].set_visible(False)


def _with_error(
    axes: Axes, at: Sequence[float], rows: list[dict[str, Any]], key: str, color: str, label: str
) -> None:
    """A curve with error bars of one standard error."""
    errors = [row.get(f"{key}_se", 0.0) for row in rows]
    axes.errorbar(
        at, [row[key] for row in rows], errors, color=color, fmt="o-", ms=4, label=label, capsize=2
    )


def tidy(axes: Axes) -> None:
    """Removes the frame, adds a faint grid, and a legend if there are labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(framealpha=0.8, edgecolor="none", fontsize=8)


def save_png(figure: Figure, path: Path) -> None:
    """Writes a PNG atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    write_atomic(path, buffer.getvalue())
