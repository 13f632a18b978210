"""The paper's figures from our runs: learning curves, and what a change of a method brings."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo import statistics
from capo.comparison.looks import LIGHT, USUAL
from capo.format import compact, count
from capo.paper.depth_figures import depth, fisher_epochs
from capo.paper.design import Experiment, Variant
from capo.paper.measures import RETURN
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.summaries import POINTS, Summary
from capo.paper.tables import Results, apart, summaries_of, values_of
from capo.report import GRAY, tidy

COLUMNS = 3


class Curve(NamedTuple):
    """Mean over seeds and its standard error, on steps that all of them reached."""

    steps: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    """Not a number for one seed."""
    seeds: int


def mean_curve(runs: Sequence[Summary]) -> Curve | None:
    """Of the returns in training; None if the seeds share no steps."""
    steps, seeds = statistics.align([_finite(run) for run in runs], POINTS)
    if not len(steps):
        return None
    error = statistics.standard_error(seeds)
    return Curve(steps, statistics.mean(seeds), error, seeds.shape[-1])


def _finite(run: Summary) -> tuple[np.ndarray, np.ndarray]:
    steps, values = (np.array(run.curve.get(key, []), float) for key in ("steps", "return"))
    good = np.isfinite(steps) & np.isfinite(values)
    return steps[good], values[good]


def curves(experiment: Experiment, chosen: Selection, results: Results) -> Figure | None:
    """A panel for each task that was run; ±1 standard error over seeds."""
    panels: dict[str, list[tuple[Variant, Curve]]] = {}
    others: dict[str, str] = {}
    for env_id in envs_of(experiment, chosen):
        for variant in variants_of(experiment, chosen):
            runs = summaries_of(experiment, env_id, variant, chosen, results)
            found = mean_curve(runs)
            if found is not None:
                panels.setdefault(env_id, []).append((variant, found))
                others[env_id] = apart(env_id, runs, RETURN)
    if not panels:
        return None
    figure, all_axes = _grid(len(panels))
    for axes, (env_id, lines) in zip(all_axes, panels.items(), strict=True):
        for variant, line in lines:
            _curve(axes, variant, line)
        sizes = sorted({line.seeds for _, line in lines})
        seeds = count(sizes[-1], "seed") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds"
        axes.set_title(", ".join(filter(None, [env_id, seeds, others[env_id]])), fontsize=11)
        axes.set_xlim(left=0)
        tidy(axes)
        if legend := axes.get_legend():
            legend.remove()
    for axes in all_axes[-min(COLUMNS, len(all_axes)) :]:
        axes.set_xlabel("million environment steps")
    for axes in all_axes[::COLUMNS]:
        axes.set_ylabel("return in training")
    _legend(figure, all_axes)
    left = [env_id for env_id in envs_of(experiment, chosen) if env_id not in panels]
    if left:
        figure.supxlabel(f"not run yet: {', '.join(left)}", fontsize=9, color=GRAY)
    return figure


def _grid(panels: int) -> tuple[Figure, list[Axes]]:
    """Up to three panels a row."""
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
        low, high = line.mean - line.error, line.mean + line.error
        axes.fill_between(million, low, high, color=color, alpha=0.16, lw=0)
    axes.yaxis.set_major_formatter(lambda y, _: compact(y))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _legend(figure: Figure, all_axes: Sequence[Axes]) -> None:
    """One for all panels, above them."""
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
    """The colour that a method has in every picture."""
    return LIGHT[USUAL.index(algo)]


def attribution(experiment: Experiment, chosen: Selection, results: Results) -> Figure | None:
    """A panel for each task: the mean of each variant ±1 standard error, and its seeds."""
    cells = {
        (env_id, variant): values
        for env_id in envs_of(experiment, chosen)
        for variant in variants_of(experiment, chosen)
        if (values := values_of(experiment, env_id, variant, RETURN, chosen, results))
    }
    envs = list(dict.fromkeys(env_id for env_id, _ in cells))
    rows = [v for v in variants_of(experiment, chosen) if any(v == key[1] for key in cells)]
    if not cells:
        return None
    size = (2.2 + 4.2 * len(envs), 1.3 + 0.36 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    every = list(figure.subplots(1, len(envs), squeeze=False, sharey=True).flat)
    for axes, env_id in zip(every, envs, strict=True):
        for at, variant in enumerate(rows):
            if (env_id, variant) in cells:
                _spread(axes, at, color_of(variant.algo), np.array(cells[env_id, variant]))
            else:
                place = {"transform": axes.get_yaxis_transform(), "va": "center"}
                ground = {"fc": "white", "ec": "none", "pad": 1.5}
                axes.text(0.02, at, "not run", color=GRAY, fontsize=8, bbox=ground, **place)
        plain = cells.get((env_id, Variant("ppo")))
        if plain:
            axes.axvline(float(np.mean(plain)), color=GRAY, lw=1.2, ls=":", zorder=0)
        axes.set(title=env_id, xlabel="final return")
        axes.xaxis.set_major_formatter(lambda x, _: compact(x))
        tidy(axes)
    every[0].set_yticks(range(len(rows)), [variant.label for variant in rows])
    every[0].set_ylim(len(rows) - 0.5, -0.5)
    note = "points: mean ± 1 standard error; faint: seeds; dotted: the mean of ppo"
    figure.supxlabel(note, fontsize=9, color=GRAY)
    return figure


def _spread(axes: Axes, at: float, color: str, values: np.ndarray) -> None:
    axes.plot(values, np.full(len(values), at), "o", color=color, ms=4.5, alpha=0.3, mew=0)
    error = None if len(values) < 2 else [float(statistics.standard_error(values))]
    axes.errorbar([float(np.mean(values))], [at], xerr=error, color=color, fmt="o", ms=6.5, lw=2)


FIGURES: dict[str, Callable[[Experiment, Selection, Results], Figure | None]] = {
    "curves": curves,
    "depth": depth,
    "fisher-epochs": fisher_epochs,
    "attribution": attribution,
}
"""By the name that an experiment has for them; None where nothing was run."""
