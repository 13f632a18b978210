"""Charts as SVG text. Colours come from the page's style, so that they follow its theme."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from capo.comparison.curves import Curve, Split
from capo.comparison.looks import Look
from capo.comparison.results import Estimate
from capo.format import compact, typeset

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 70, WIDTH - 14, 12, HEIGHT - 46


class Frame(NamedTuple):
    """The ranges of a chart's axes, and where its right edge is."""

    x: tuple[float, float]
    y: tuple[float, float]
    right: float = RIGHT

    def points(self, x: np.ndarray, y: np.ndarray) -> str:
        """Coordinates in the drawing, ready for a path."""
        along, up = self.across(x), self.upward(y)
        return "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(along, up, strict=True))

    def across(self, x: Any) -> Any:
        """Where a number, or each of an array, is from left to right."""
        return LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - LEFT)

    def upward(self, y: Any) -> Any:
        """Where it is from the top; more is further up."""
        return BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * (BOTTOM - TOP)


def _from_zero(steps: Iterable[np.ndarray]) -> tuple[float, float]:
    return 0.0, max(float(each[-1]) for each in steps) or 1.0


def _roomy(low: float, high: float) -> tuple[float, float]:
    """A little more than the range, from zero if that is near; never empty."""
    room = 0.05 * (high - low) or 0.5 * abs(low) or 1.0
    if 0 <= low < 0.3 * high or low == high == 0:
        return 0.0, high + room
    return low - room, high + room


def _ticks(low: float, high: float) -> np.ndarray:
    return np.asarray(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def learning(curves: Sequence[tuple[Look, Curve]], title: str) -> str:
    """Learning curves over steps, each with its band."""
    parts = [part for _, c in curves for part in (c.mean, *((c.low, c.high) * (c.seeds > 1)))]
    span = float(min(map(np.min, parts))), float(max(map(np.max, parts)))
    area = Frame(_from_zero(curve.steps for _, curve in curves), _roomy(*span))
    drawn = [_axes(area, "training return")]
    for look, curve in curves:
        if curve.seeds > 1:
            there = area.points(curve.steps, curve.high)
            back = area.points(curve.steps[::-1], curve.low[::-1])
            drawn.append(f'<path class="band c{look.color}" d="M{there}L{back}Z"/>')
    for look, curve in curves:
        classes = f"line c{look.color}" + " dashed" * look.dashed
        drawn.append(_line(area, curve.steps, curve.mean, classes))
    drawn.append(f'<line class="cursor" y1="{TOP}" y2="{BOTTOM}" x1="0" x2="0"/>')
    return _svg(drawn, title, f'data-left="{LEFT}" data-right="{RIGHT}" data-steps="{area.x[1]:g}"')


def split_frame(charts: Sequence[Split]) -> Frame:
    """One scale for the signal and waste of several groups, with room for a second axis."""
    top = 1e3 * max(float(np.max(chart.signal + chart.waste)) for chart in charts)
    return Frame(_from_zero(chart.steps for chart in charts), _roomy(0.0, top), WIDTH - 56)


def split(found: Split, area: Frame, title: str) -> str:
    """Signal and waste in 10⁻³, one on the other, and the alignment on an axis of its own."""
    steps, signal, top = found.steps, 1e3 * found.signal, 1e3 * (found.signal + found.waste)
    floor, between = (area.points(steps[::-1], y[::-1]) for y in (0 * signal, signal))
    share = area._replace(y=(0.0, 1.0))
    dots = zip(share.across(steps), share.upward(found.alignment), strict=True)
    ends = ((at, share.upward(at)) for at in (0, 0.5, 1))
    parts = [
        _axes(area, "c² + ‖ε‖², 10⁻³"),
        f'<path class="area signal" d="M{area.points(steps, signal)}L{floor}Z"/>',
        f'<path class="area waste" d="M{area.points(steps, top)}L{between}Z"/>',
        _line(share, steps, found.alignment, "line alignment"),
        *(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in dots),
        *(f'<text x="{area.right + 7}" y="{y:.1f}" dy="4">{at:g}</text>' for at, y in ends),
        _sideways(WIDTH - 8, "alignment α"),
    ]
    return _svg(parts, title)


def whisker(found: Estimate, low: float, high: float, look: Look, half: bool = False) -> str:
    """A point and its interval on a short line from `low` to `high`; `half` marks the middle."""
    span = (high - low) or 1.0
    at, begin, end = (4 + 92 * (x - low) / span for x in found)
    middle = '<path class="half" d="M50,1V15"/>' if half else ""
    return (
        f'<svg class="whisker" viewBox="0 0 100 16" aria-hidden="true"><path class="rail" '
        f'd="M4,8H96"/>{middle}<path class="line c{look.color}" d="M{begin:.1f},8H{end:.1f}l0,0"/>'
        f'<circle class="point c{look.color}" cx="{at:.1f}" cy="8" r="3.5"/></svg>'
    )


def _axes(area: Frame, name: str) -> str:
    parts = []
    for tick in _inside(area.y):
        y = area.upward(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{area.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text class="y" x="{LEFT - 7}" y="{y:.1f}" dy="4">{_tick(tick)}</text>')
    for tick in _inside(area.x):
        x = area.across(tick)
        parts.append(f'<text class="x" x="{x:.1f}" y="{BOTTOM + 18}">{compact(tick)}</text>')
    base = f'<path class="axis" d="M{LEFT},{BOTTOM}H{area.right}"/>'
    middle = (LEFT + area.right) / 2
    steps = f'<text class="x name" x="{middle}" y="{HEIGHT - 8}">environment steps</text>'
    return "".join([*parts, base, steps, _sideways(12, name)])


def _inside(span: tuple[float, float]) -> np.ndarray:
    ticks, slack = _ticks(*span), 1e-9 * (span[1] - span[0])
    return ticks[(ticks >= span[0] - slack) & (ticks <= span[1] + slack)]


def _tick(value: float) -> str:
    return typeset(compact(value) if abs(value) >= 10_000 else f"{round(value, 9):g}")


def _sideways(x: float, text: str) -> str:
    y = (TOP + BOTTOM) / 2
    return f'<text class="x name" transform="translate({x},{y}) rotate(-90)">{escape(text)}</text>'


def _line(area: Frame, x: np.ndarray, y: np.ndarray, classes: str) -> str:
    # The last stroke has no length: it makes a dot of a curve that has one point.
    return f'<path class="{classes}" d="M{area.points(x, y)}l0,0"/>'


def _svg(parts: list[str], title: str, more: str = "") -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" {more}>{"".join(parts)}</svg>'
    )
