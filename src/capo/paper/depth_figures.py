"""Figures of return, signal, waste and alignment against the number of epochs."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from capo.paper.measures import DEPTH_COLUMNS
from capo.paper.published import task_name
from capo.report.format import compact, count
from capo.report.plots import BLUE, ORANGE, tidy
from capo.sweeps.design import Experiment
from capo.sweeps.results import Results
from capo.sweeps.tables import Entry

GREEN, INK = "#1a8a5a", "#1d1d1f"
COLORS = {"return": GREEN, "signal": BLUE, "waste": ORANGE, "total": INK, "alignment": INK}
LABELS = {
    "return": "final return",
    "signal": "signal c²",
    "waste": "waste ‖ε‖²",
    "total": "total c² + ‖ε‖²",
    "alignment": "alignment α",
}
SCALE = "10⁻³, twice the KL"
PAPER = ", paper"


class DepthCurve(NamedTuple):
    """One measure on one task by depth, from our runs and from the paper."""

    column: str
    epochs: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    paper_epochs: np.ndarray
    paper: np.ndarray
    seeds: int


def depth_curve(experiment: Experiment, env_id: str, column: str, results: Results) -> DepthCurve:
    """The curve of one measure, at the depths with a run or a published number."""
    measure = DEPTH_COLUMNS[column]
    cells = {
        int(dict(variant.changes)["epochs"]): Entry(
            results.values(env_id, variant, measure),
            experiment.published(env_id, variant, measure),
            measure.digits,
        )
        for variant in results.variants(experiment)
    }
    ours = {e: cell for e, cell in sorted(cells.items()) if cell.values}
    theirs = {e: cell.published.mean for e, cell in sorted(cells.items()) if cell.published}
    return DepthCurve(
        column,
        np.array(list(ours), float),
        np.array([cell.mean for cell in ours.values()]),
        np.array([cell.error for cell in ours.values()]),
        np.array(list(theirs), float),
        np.array(list(theirs.values()), float),
        max((len(cell.values) for cell in ours.values()), default=0),
    )


def _curves(
    experiment: Experiment, columns: tuple[str, ...], results: Results
) -> dict[str, dict[str, DepthCurve]]:
    """Curves by task and measure, for the tasks with a run."""
    curves = {
        env_id: {column: depth_curve(experiment, env_id, column, results) for column in columns}
        for env_id in results.envs(experiment)
    }
    return {env_id: row for env_id, row in curves.items() if row["return"].seeds}


def depth_figure(experiment: Experiment, results: Results) -> Figure | None:
    """Return on the left axis, signal and waste on the right; the paper's numbers are dotted."""
    rows = _curves(experiment, ("return", "signal", "waste"), results)
    if not rows:
        return None
    figure = Figure(figsize=(8.4, 4.8 * len(rows)), layout="constrained")
    handles: tuple[list, list] = [], []
    for axes, (env_id, row) in zip(_column(figure, len(rows), 1), rows.items(), strict=True):
        other = axes[0].twinx()
        _lines(axes[0], row["return"], with_paper=True)
        for column in ("waste", "signal"):
            _lines(other, row[column], with_paper=True)
        _epochs(axes[0], list(row.values()))
        _sides(axes[0], other, "final return", f"signal and waste, {SCALE}")
        axes[0].set_title(_title(env_id, row["return"]), fontsize=11)
        handles = _handles(axes[0], other)
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def fisher_epochs_figure(experiment: Experiment, results: Results) -> Figure | None:
    """Three panels: signal and waste; their sum and the return; the alignment."""
    columns = ("return", "signal", "waste", "total", "alignment")
    rows = _curves(experiment, columns, results)
    if not rows:
        return None
    figure = Figure(figsize=(13.2, 3.9 * len(rows)), layout=ConstrainedLayoutEngine(w_pad=0.12))
    for axes, (env_id, row) in zip(_column(figure, len(rows), 3), rows.items(), strict=True):
        left, middle, right = axes
        for column in ("waste", "signal"):
            _lines(left, row[column])
        left.set(yscale="log", ylabel=SCALE)
        left.set_title(f"{_title(env_id, row['return'])}: signal and waste", fontsize=11)
        other = middle.twinx()
        _lines(middle, row["total"])
        _lines(other, row["return"])
        _sides(middle, other, f"c² + ‖ε‖², {SCALE}", "final return")
        middle.set_title("Their sum, and the return", fontsize=11)
        _lines(right, row["alignment"])
        _marks(right, row["alignment"])
        right.margins(y=0.12)
        right.set(ylabel="alignment α", ylim=(0, None))
        right.set_title("Alignment", fontsize=11)
        for panel in axes:
            _epochs(panel, list(row.values()))
        for panel in (left, right):
            tidy(panel)
        other.legend(*_handles(middle, other), framealpha=0.85, edgecolor="none", fontsize=8)
    return figure


def _column(figure: Figure, lines: int, panels: int) -> list[list[Axes]]:
    return [list(row) for row in figure.subplots(lines, panels, squeeze=False)]


def _title(env_id: str, curve: DepthCurve) -> str:
    return f"{task_name(env_id)}, PPO, {count(curve.seeds, 'seed')}"


def _lines(axes: Axes, curve: DepthCurve, with_paper: bool = False) -> None:
    """Our means with bars of one standard error, and the paper's dotted."""
    color, label = COLORS[curve.column], LABELS[curve.column]
    if len(curve.epochs):
        error = np.nan_to_num(curve.error)
        style = {"fmt": "o-", "ms": 4.5, "lw": 1.7, "capsize": 2.5}
        axes.errorbar(curve.epochs, curve.mean, error, color=color, label=label, **style)
    if with_paper and len(curve.paper):
        axes.plot(curve.paper_epochs, curve.paper, ":", color=color, lw=1.5, label=label + PAPER)


def _marks(axes: Axes, curve: DepthCurve) -> None:
    if len(curve.paper):
        style = {"mfc": "none", "mec": "#c0392b", "ms": 8, "mew": 1.6, "ls": "none"}
        axes.plot(curve.paper_epochs, curve.paper, "D", label="paper", **style)


def _epochs(axes: Axes, row: list[DepthCurve]) -> None:
    """A logarithmic axis with a tick at each depth."""
    depths = sorted({int(e) for curve in row for e in (*curve.epochs, *curve.paper_epochs)})
    axes.set(xscale="log", xlabel="epochs E")
    axes.set_xticks(depths, [str(e) for e in depths])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _sides(left: Axes, right: Axes, left_label: str, right_label: str) -> None:
    """Labels two vertical axes of one panel, both from zero."""
    for axes, label in ((left, left_label), (right, right_label)):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=min(0.0, 1.1 * axes.dataLim.y0))
        axes.spines["top"].set_visible(False)
        axes.yaxis.set_major_formatter(lambda y, _: compact(y))
    left.grid(alpha=0.2)


def _handles(left: Axes, right: Axes) -> tuple[list, list]:
    """Lines of both axes and their labels for one legend, the paper's after ours."""
    pairs = [axes.get_legend_handles_labels() for axes in (left, right)]
    handles = {label: handle for axes in pairs for handle, label in zip(*axes, strict=True)}
    names = [name for each in LABELS.values() for name in (each, each + PAPER) if name in handles]
    return [handles[name] for name in names], names
