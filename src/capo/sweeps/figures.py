"""Figures of our runs: learning curves, and final returns of the variants of a method."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo import statistics
from capo.compare.line_styles import COLOR_ORDER, LIGHT_COLORS
from capo.report.format import compact, count
from capo.report.plots import GRAY, tidy
from capo.statistics import Curve
from capo.sweeps.design import Contrast, Experiment, Variant
from capo.sweeps.measures import RETURN
from capo.sweeps.ratios import MEAN, log_ratios, mean_log_ratios
from capo.sweeps.results import REFERENCE, Results

COLUMNS = 3


def curves_figure(experiment: Experiment, results: Results) -> Figure | None:
    """A panel for each task with runs; bands are 95% bootstrap intervals over seeds."""
    panels: dict[str, list[tuple[Variant, Curve]]] = {}
    for env_id, variant in results.cells(experiment):
        curve = results.curve(env_id, variant)
        if curve is not None:
            panels.setdefault(env_id, []).append((variant, curve))
    if not panels:
        return None
    figure, all_axes = _grid(len(panels))
    for axes, (env_id, lines) in zip(all_axes, panels.items(), strict=True):
        for variant, line in lines:
            _curve(axes, variant, line)
        sizes = sorted({line.seeds for _, line in lines})
        seeds = count(sizes[-1], "seed") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds"
        last = [variant for variant, _ in lines][-1:]
        other = results.mismatch(experiment, env_id, last, RETURN)
        axes.set_title(", ".join(filter(None, [env_id, seeds, other])), fontsize=11)
        axes.set_xlim(left=0)
        tidy(axes)
        if legend := axes.get_legend():
            legend.remove()
    for axes in all_axes[-min(COLUMNS, len(all_axes)) :]:
        axes.set_xlabel("million environment steps")
    for axes in all_axes[::COLUMNS]:
        axes.set_ylabel("return in training")
    _legend(figure, all_axes)
    left = [env_id for env_id in results.envs(experiment) if env_id not in panels]
    if left:
        figure.supxlabel(f"not run yet: {', '.join(left)}", fontsize=9, color=GRAY)
    return figure


def _grid(panels: int) -> tuple[Figure, list[Axes]]:
    """A figure with up to three panels in a row."""
    columns = min(panels, COLUMNS)
    lines = math.ceil(panels / columns)
    size = (max(4.3 * columns, 6.8), 3.3 * lines + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    every = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in every[panels:]:
        axes.set_visible(False)
    return figure, every[:panels]


def _curve(axes: Axes, variant: Variant, line: Curve) -> None:
    color, million = color_of(variant.algo), line.steps / 1e6
    axes.plot(million, line.mean, color=color, lw=1.7, label=variant.label)
    if line.seeds > 1:
        axes.fill_between(million, line.low, line.high, color=color, alpha=0.16, lw=0)
    axes.yaxis.set_major_formatter(lambda y, _: compact(y))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _legend(figure: Figure, all_axes: Sequence[Axes]) -> None:
    """Adds one legend for all panels, above them."""
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=min(len(handles), 7 if len(all_axes) > 1 else 4),
        frameon=False,
    )


def color_of(algo: str) -> str:
    """The colour of a method, the same in every figure."""
    return LIGHT_COLORS[COLOR_ORDER.index(algo)]


def returns_figure(experiment: Experiment, results: Results) -> Figure | None:
    """A panel for each task: each variant's mean ±1 standard error, and its seeds."""
    cells = {
        (env_id, variant): values
        for env_id, variant in results.cells(experiment)
        if (values := results.values(env_id, variant, RETURN))
    }
    plain = Variant(REFERENCE)
    lines = {env: float(np.mean(cells[env, plain])) for env, v in cells if v == plain}
    panels = results.envs(experiment)
    return _forest(cells, panels, lines, "final return", f"the mean of {REFERENCE}")


def ratio_figure(experiment: Experiment, results: Results) -> Figure | None:
    """A panel for each task and one for all: log-ratios of training returns to the reference."""
    reference, envs = experiment.reference, results.envs(experiment)
    assert reference is not None
    cells: Cells = {}
    for variant in results.variants(experiment):
        pair = Contrast(variant, reference)
        cells[MEAN, variant] = mean_log_ratios(envs, pair, results)
        for env_id in envs:
            cells[env_id, variant] = tuple(log_ratios(env_id, pair, results).values())
    cells = {key: values for key, values in cells.items() if values and key[1] != reference}
    panels = [MEAN, *envs]
    lines = dict.fromkeys(panels, 0.0)
    return _forest(cells, panels, lines, "log-ratio of training returns", reference.label)


Cells = dict[tuple[str, Variant], tuple[float, ...]]
"""Values of the seeds by panel and variant."""


def _forest(
    cells: Cells, order: Sequence[str], lines: dict[str, float], xlabel: str, dotted: str
) -> Figure | None:
    """Panels in this order, where they have values, with a row for each variant."""
    panels = [name for name in order if any(panel == name for panel, _ in cells)]
    rows = list(dict.fromkeys(variant for _, variant in cells))
    if not cells:
        return None
    size = (2.2 + (4.2 if len(panels) < 4 else 2.6) * len(panels), 1.3 + 0.36 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    every = list(figure.subplots(1, len(panels), squeeze=False, sharey=True).flat)
    for axes, panel in zip(every, panels, strict=True):
        for at, variant in enumerate(rows):
            if (panel, variant) in cells:
                _spread(axes, at, color_of(variant.algo), np.array(cells[panel, variant]))
            else:
                place = {"transform": axes.get_yaxis_transform(), "va": "center"}
                ground = {"fc": "white", "ec": "none", "pad": 1.5}
                axes.text(0.02, at, "not run", color=GRAY, fontsize=8, bbox=ground, **place)
        if panel in lines:
            axes.axvline(lines[panel], color=GRAY, lw=1.2, ls=":", zorder=0)
        axes.set(title=panel, xlabel=xlabel)
        axes.xaxis.set_major_formatter(lambda x, _: compact(x) if abs(x) >= 10 else f"{x:g}")
        tidy(axes)
    every[0].set_yticks(range(len(rows)), [variant.label for variant in rows])
    every[0].set_ylim(len(rows) - 0.5, -0.5)
    note = f"points: mean ± 1 standard error; faint: seeds; dotted: {dotted}"
    figure.supxlabel(note, fontsize=9, color=GRAY)
    return figure


def _spread(axes: Axes, at: float, color: str, values: np.ndarray) -> None:
    axes.plot(values, np.full(len(values), at), "o", color=color, ms=4.5, alpha=0.3, mew=0)
    error = None if len(values) < 2 else [float(statistics.standard_error(values))]
    axes.errorbar([float(np.mean(values))], [at], xerr=error, color=color, fmt="o", ms=6.5, lw=2)
