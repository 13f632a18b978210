"""Curves over environment steps, averaged over seeds."""

from typing import NamedTuple

import numpy as np

from capo import statistics
from capo.compare.groups import Group
from capo.statistics import Curve, mean_curve

POINTS = 200
"""Largest number of points of a curve."""


class SignalWaste(NamedTuple):
    """Signal c², waste ‖ε‖²_F and alignment c² / (c² + ‖ε‖²_F) of the updates, means over seeds."""

    steps: np.ndarray
    signal: np.ndarray
    waste: np.ndarray
    alignment: np.ndarray


def group_curve(group: Group, key: str, confidence: float) -> Curve | None:
    """The curve of a key of metrics.jsonl; None if the seeds have no steps in common."""
    return mean_curve([record.curve(key) for record in group.records], POINTS, confidence)


def signal_waste(group: Group) -> SignalWaste | None:
    """Signal and waste of the diagnosed updates; None if no update was diagnosed."""
    curves = {name: _on_grid(group, f"fisher/{name}") for name in SignalWaste._fields[1:]}
    if not all(len(grid) for grid, _ in curves.values()):
        return None
    steps, _ = next(iter(curves.values()))
    means = {
        name: np.interp(steps, grid, statistics.mean(seeds))
        for name, (grid, seeds) in curves.items()
    }
    return SignalWaste(steps=steps, **means)


def _on_grid(group: Group, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Common steps of the seeds, and the values of each seed at these steps."""
    return statistics.align([record.curve(key) for record in group.records], POINTS)
