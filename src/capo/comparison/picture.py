"""Learning curves as a PNG, a panel for each environment."""

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capo.comparison.curves import Curve
from capo.comparison.groups import Group
from capo.comparison.looks import LIGHT, Look
from capo.format import compact, count, printable
from capo.report import save, tidy

COLUMNS = 3
LONGEST = 60


def draw(
    path: Path, envs: list[str], curves: list[tuple[Group, Curve]], looks: dict[str, Look]
) -> None:
    """Mean over seeds, and a band for its bootstrap interval."""
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
                _curve(panel, group, curve, looks[group.label])
        panel.set(xlabel="environment steps", ylabel="training return")
        panel.set_title(_short(env_id), parse_math=False)
        panel.xaxis.set_major_formatter(lambda x, _: compact(x))
        if panel.lines:
            panel.set_xlim(left=0)
            tidy(panel)
    save(figure, path)


def _curve(axes: Axes, group: Group, curve: Curve, look: Look) -> None:
    color, style = LIGHT[look.color], "--" if look.dashed else "-"
    # A dollar sign in a name is no formula.
    label = _short(group.label).replace("$", r"\$") + f" ({count(curve.seeds, 'seed')})"
    axes.plot(curve.steps, curve.mean, color=color, ls=style, lw=1.6, label=label)
    if curve.seeds > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.18, lw=0)


def _short(name: str) -> str:
    """What fits into a panel."""
    name = printable(name)
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
