"""One colour for one label, the same in every panel and every picture."""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

LIGHT = ("#6b6b6b", "#2166ac", "#e07b10", "#1a8a5a", "#8c4a9e", "#c0392b", "#1391a5", "#8a6d3b")
"""Grey, blue, orange, green, purple, red, teal, brown."""
DARK = ("#b3b3b3", "#6aaef0", "#f5a24b", "#4cc38a", "#c48ad6", "#f07a6c", "#4fc4d6", "#cbab76")
"""The same on a dark ground."""
USUAL = ("ppo", "capo", "capo-avg", "trpo", "ppo-kx", "best-of-k", "ppo-swa")
"""Algorithms whose place in the palette does not depend on what they are compared with."""


class Look(NamedTuple):
    """How a label is drawn."""

    color: int
    """Place in the palette."""
    dashed: bool


def looks(labels: Mapping[str, str]) -> dict[str, Look]:
    """By label, given its algorithm: the first of a usual algorithm has the usual colour.

    The others take the colours that are left, then dashes.
    """
    found: dict[str, Look] = {}
    for label, algo in labels.items():
        if algo in USUAL and (look := Look(USUAL.index(algo), False)) not in found.values():
            found[label] = look
    free = [Look(color, dashed) for dashed in (False, True) for color in range(len(LIGHT))]
    left = itertools.cycle(look for look in free if look not in found.values())
    return {label: found[label] if label in found else next(left) for label in labels}
