"""Geometry of the charts on the page; the templates draw them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.ticker import MaxNLocator

from capo.compare.curves import Curve, SignalWaste
from capo.report.format import compact, typeset

Range = tuple[float, float]
SHARE = 1e3
"""Signal and waste are shown in units of 10⁻³."""


@dataclass(frozen=True)
class Frame:
    """The data ranges of the axes of a chart, and their place in the drawing."""

    x: Range
    y: Range
    right: int = 506

    width: ClassVar[int] = 520
    height: ClassVar[int] = 300
    left: ClassVar[int] = 70
    top: ClassVar[int] = 12
    bottom: ClassVar[int] = 254

    def across(self, x: Any) -> Any:
        """The horizontal position of data: left + (x − x₀)/(x₁ − x₀) · width of the axis."""
        return self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - self.left)

    def upward(self, y: Any) -> Any:
        """The vertical position of data, counted from the top."""
        return self.bottom - (y - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)

    def points(self, x: np.ndarray, y: np.ndarray) -> str:
        """The coordinates of an SVG path through data."""
        pairs = zip(self.across(x), self.upward(y), strict=True)
        return "L".join(f"{across:.1f},{upward:.1f}" for across, upward in pairs)

    def line(self, x: np.ndarray, y: np.ndarray) -> str:
        """An SVG path; a last stroke without length makes a single point visible."""
        return f"M{self.points(x, y)}l0,0"

    def area(self, x: np.ndarray, high: np.ndarray, low: np.ndarray) -> str:
        """An SVG path around the area between two curves."""
        return f"M{self.points(x, high)}L{self.points(x[::-1], low[::-1])}Z"

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of the ticks of the horizontal axis."""
        return [(float(self.across(tick)), compact(tick)) for tick in _ticks(*self.x)]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of the ticks of the vertical axis."""
        return [(float(self.upward(tick)), _label(tick)) for tick in _ticks(*self.y)]


@dataclass(frozen=True)
class SignalWasteChart:
    """Signal and waste stacked in one frame, the alignment in another with its own axis."""

    split: SignalWaste
    frame: Frame

    @property
    def signal(self) -> str:
        """The SVG path of the area of the signal."""
        signal = SHARE * self.split.signal
        return self.frame.area(self.split.steps, signal, 0 * signal)

    @property
    def waste(self) -> str:
        """The SVG path of the area of the waste, above the signal."""
        signal, waste = SHARE * self.split.signal, SHARE * self.split.waste
        return self.frame.area(self.split.steps, signal + waste, signal)

    @property
    def share(self) -> Frame:
        """The frame of the alignment."""
        return Frame(self.frame.x, (0.0, 1.0), self.frame.right)

    @property
    def alignment(self) -> str:
        """The SVG path of the alignment."""
        return self.share.line(self.split.steps, self.split.alignment)

    @property
    def dots(self) -> list[tuple[float, float]]:
        """The points of the alignment."""
        pairs = zip(self.split.steps, self.split.alignment, strict=True)
        return [(float(self.share.across(x)), float(self.share.upward(y))) for x, y in pairs]


def learning_frame(curves: Sequence[Curve]) -> Frame:
    """A frame for curves and their bands."""
    parts = [part for c in curves for part in (c.mean, *((c.low, c.high) * (c.seeds > 1)))]
    span = float(min(map(np.min, parts))), float(max(map(np.max, parts)))
    return Frame(_from_zero(curve.steps for curve in curves), _padded(*span))


def signal_waste_charts(splits: Sequence[SignalWaste]) -> list[SignalWasteChart]:
    """A chart for each group, all with one scale, with room for a second axis."""
    top = SHARE * max(float(np.max(each.signal + each.waste)) for each in splits)
    steps = _from_zero(each.steps for each in splits)
    frame = Frame(steps, _padded(0.0, top), Frame.width - 56)
    return [SignalWasteChart(each, frame) for each in splits]


def _from_zero(steps: Iterable[np.ndarray]) -> Range:
    return 0.0, max(float(each[-1]) for each in steps) or 1.0


def _padded(low: float, high: float) -> Range:
    """A range with a margin, from zero if zero is near; never empty."""
    margin = 0.05 * (high - low) or 0.5 * abs(low) or 1.0
    if 0 <= low < 0.3 * high or low == high == 0:
        return 0.0, high + margin
    return low - margin, high + margin


def _ticks(low: float, high: float) -> np.ndarray:
    values = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks, slack = np.asarray(values), 1e-9 * (high - low)
    return ticks[(ticks >= low - slack) & (ticks <= high + slack)]


def _label(value: float) -> str:
    return typeset(compact(value) if abs(value) >= 10_000 else f"{round(value, 9):g}")
