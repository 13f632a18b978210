"""Learning curves as a PNG with a panel for each environment."""

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo.compare.curves import Curve
from capo.compare.groups import Group
from capo.compare.line_styles import LIGHT_COLORS, LineStyle
from capo.report.format import compact, count
from capo.report.plots import save_png, tidy
from capo.storage.text import printable

COLUMNS = 3
LONGEST = 60


def plot_curves(
    path: Path, envs: list[str], curves: list[tuple[Group, Curve]], styles: dict[str, LineStyle]
) -> None:
    """Draws means over seeds, with bands for their bootstrap intervals."""
    columns = min(len(envs), COLUMNS)
    lines = math.ceil(len(envs) / columns)
    size = (max(4.8 * columns, 6.4), (3.6 if columns > 1 else 4.2) * lines)
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for panel in panels[len(envs) :]:
        panel.set_visible(False)
    for panel, env_id in zip(panels, envs, strict=False):
        for group, curve in curves:
            if group.env_id == env_id:
                _curve(panel, group, curve, styles[group.label])
        panel.set(xlabel="environment steps", ylabel="training return")
        panel.set_title(_short(env_id), parse_math=False)
        panel.xaxis.set_major_formatter(lambda x, _: compact(x))
        if panel.lines:
            panel.set_xlim(left=0)
            tidy(panel)
    save_png(figure, path)


def _curve(axes: Axes, group: Group, curve: Curve, style: LineStyle) -> None:
    color, dashes = LIGHT_COLORS[style.color], "--" if style.dashed else "-"
    # A dollar sign in a name must not start a formula.
    label = _short(group.label).replace("$", r"\$") + f" ({count(curve.seeds, 'seed')})"
    axes.plot(curve.steps, curve.mean, color=color, ls=dashes, lw=1.6, label=label)
    if curve.seeds > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.18, lw=0)


def _short(name: str) -> str:
    """The name, cut to fit into a panel."""
    name = printable(name)
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
