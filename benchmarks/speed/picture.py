"""A bar chart of the parts of each program's generation."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.speed.cases import (
    CONTRIB_TRPO,
    DETAILED,
    PHYSICS,
    SB3,
    SB3_SUBPROC,
    SBX,
    TASKS,
    UPDATE,
)
from benchmarks.speed.measurements import Measurements, fastest, median

COLORS = {
    "acting and physics": "#9aa5b1",
    "update": "#c98b6b",
    "physics": "#5b6b7b",
    "acting": "#aab7c4",
    "advantage": "#f2d06b",
    "experts": "#e8871e",
    "merging": "#b2182b",
    "critic": "#2166ac",
    "rest of the update": "#cccccc",
}
MERGING = ("aggregation", "distillation", "line search")
Bar = dict[str, float]


def draw(path: Path, measured: Measurements) -> None:
    """Draws a panel for each task: a bar for each program, and a line for the physics alone."""
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    for axes, env in zip(figure.subplots(2, 2).flat, TASKS, strict=True):
        _panel(axes, measured, env)
    handles = [Patch(color=color, label=part) for part, color in COLORS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, measured: Measurements, env: str) -> None:
    rows = bars(measured, env)
    labels = list(rows)
    for row, bar in enumerate(rows.values()):
        left = 0.0
        for part, seconds in bar.items():
            axes.barh(row, seconds, left=left, color=COLORS[part], height=0.72)
            left += seconds
        text = f"{left:.2f} s" if bar else "not run"
        axes.annotate(text, (left, row), (4, 0), textcoords="offset points", va="center", size=9)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -1.0)
    if limit := median(measured, f"main-{env}", PHYSICS):
        axes.axvline(limit, color="black", lw=1, ls=":")
        axes.annotate(" physics alone", (limit, -0.7), size=8, va="center")
    axes.set_title(env, fontsize=11, loc="left")
    axes.set_xlabel("seconds per generation", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.13)
    axes.set_xlim(left=0)


def bars(measured: Measurements, env: str) -> dict[str, Bar]:
    """Seconds of each part of each program's generation; empty if it was not run."""
    comparison = f"main-{env}"
    others = {
        "SB3 PPO": fastest(measured, comparison, (SB3, SB3_SUBPROC)),
        "SBX PPO": SBX,
        "SB3-contrib TRPO": CONTRIB_TRPO,
    }
    found = {label: _of_peer(measured, comparison, name) for label, name in others.items()}
    return found | {f"capo's {algo}": _of_ours(measured, env, algo) for algo in DETAILED}


def _of_peer(measured: Measurements, comparison: str, name: str) -> Bar:
    collect, whole = (median(measured, comparison, name, key) for key in ("collect", "seconds"))
    if collect is None or whole is None:
        return {}
    return {"acting and physics": collect, "update": whole - collect}


def _of_ours(measured: Measurements, env: str, algo: str) -> Bar:
    """The measured whole, divided in proportion to the separately measured parts.

    The parts are from another comparison, when the machine may have been slower or faster.
    """
    whole = _of_peer(measured, f"main-{env}", algo)
    keys = ("physics", "acting", "update", *UPDATE)
    found = {key: median(measured, f"breakdown-{env}", algo, key) or 0.0 for key in keys}
    if not whole or not found["physics"]:
        return whole
    collect = whole["acting and physics"] / (found["physics"] + found["acting"])
    parts = sum(found[key] for key in UPDATE)
    update = whole["update"] / max(found["update"], parts)
    merging = sum(found[key] for key in MERGING)
    return {
        **{key: collect * found[key] for key in ("physics", "acting")},
        **{key: update * found[key] for key in ("advantage", "experts")},
        "merging": update * merging,
        "critic": update * found["critic"],
        "rest of the update": update * max(0.0, found["update"] - parts),
    }
