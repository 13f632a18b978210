"""Colours and dashes of lines: one style for a label in all panels and figures."""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

LIGHT_COLORS = (
    "#6b6b6b",
    "#2166ac",
    "#e07b10",
    "#1a8a5a",
    "#8c4a9e",
    "#c0392b",
    "#1391a5",
    "#8a6d3b",
)
"""Grey, blue, orange, green, purple, red, teal, brown."""
DARK_COLORS = (
    "#b3b3b3",
    "#6aaef0",
    "#f5a24b",
    "#4cc38a",
    "#c48ad6",
    "#f07a6c",
    "#4fc4d6",
    "#cbab76",
)
"""The same colours for a dark background."""
COLOR_ORDER = ("ppo", "capo", "capo-avg", "trpo", "ppo-kx", "best-of-k", "ppo-swa")
"""Algorithms with a fixed colour: the first has the first colour, and so on."""


class LineStyle(NamedTuple):
    """The line style of a label."""

    color: int
    """Index in the palette."""
    dashed: bool


def line_styles(labels: Mapping[str, str]) -> dict[str, LineStyle]:
    """By label, given its algorithm: the first of a usual algorithm has the usual colour.

    The others take the colours that are left, then dashes.
    """
    styles: dict[str, LineStyle] = {}
    for label, algo in labels.items():
        if (
            algo in COLOR_ORDER
            and (style := LineStyle(COLOR_ORDER.index(algo), False)) not in styles.values()
        ):
            styles[label] = style
    free = [
        LineStyle(color, dashed) for dashed in (False, True) for color in range(len(LIGHT_COLORS))
    ]
    left = itertools.cycle(style for style in free if style not in styles.values())
    return {label: styles[label] if label in styles else next(left) for label in labels}
