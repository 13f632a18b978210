"""Curves over environment steps, averaged over seeds."""

from typing import NamedTuple

import numpy as np

from capo.compare.groups import Group
from capo.report import statistics

POINTS = 200
"""Largest number of points of a curve."""
RESAMPLES = 2_000


class Curve(NamedTuple):
    """Mean over seeds and its bootstrap interval, on steps that all seeds reached."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


class SignalWaste(NamedTuple):
    """Signal c², waste ‖ε‖²_F and alignment c² / (c² + ‖ε‖²_F) of the updates, means over seeds."""

    steps: np.ndarray
    signal: np.ndarray
    waste: np.ndarray
    alignment: np.ndarray


def group_curve(group: Group, key: str, confidence: float) -> Curve | None:
    """The curve of a key of metrics.jsonl; None if the seeds have no steps in common."""
    steps, seeds = _on_grid(group, key)
    if not len(steps):
        return None
    low, high = statistics.bootstrap(
        statistics.mean, seeds, confidence=confidence, resamples=RESAMPLES
    )
    return Curve(steps, statistics.mean(seeds), low, high, seeds.shape[-1])


def signal_waste(group: Group) -> SignalWaste | None:
    """Signal and waste of the diagnosed updates; None if no update was diagnosed."""
    found = [_on_grid(group, f"fisher/{name}") for name in SignalWaste._fields[1:]]
    steps = found[0][0]
    if not all(len(grid) for grid, _ in found):
        return None
    return SignalWaste(steps, *(np.interp(steps, grid, statistics.mean(s)) for grid, s in found))


def _on_grid(group: Group, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Common steps of the seeds, and the values of each seed at these steps."""
    return statistics.align([record.curve(key) for record in group.records], POINTS)
