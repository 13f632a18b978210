"""Curves over environment steps, averaged over seeds."""

from typing import NamedTuple

import numpy as np

from capo import statistics
from capo.comparison.groups import Group

POINTS = 200
"""Most points of a curve."""
RESAMPLES = 2_000


class Curve(NamedTuple):
    """Mean over seeds on a grid of steps that all of them reached, and its bootstrap interval."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


class Split(NamedTuple):
    """Where the KL of the updates went: c² and ‖ε‖²_F, and c² over their sum. Means over seeds."""

    steps: np.ndarray
    signal: np.ndarray
    waste: np.ndarray
    alignment: np.ndarray


def curve(group: Group, key: str, confidence: float) -> Curve | None:
    """The curve of a key of metrics.jsonl; None if no seed has it, or they share no steps."""
    steps, seeds = _on_grid(group, key)
    if not len(steps):
        return None
    low, high = statistics.bootstrap(
        statistics.mean, seeds, confidence=confidence, resamples=RESAMPLES
    )
    return Curve(steps, statistics.mean(seeds), low, high, seeds.shape[-1])


def split(group: Group) -> Split | None:
    """Signal and waste of the updates that were looked at; None if none was."""
    found = [_on_grid(group, f"fisher/{name}") for name in Split._fields[1:]]
    steps = found[0][0]
    if not all(len(grid) for grid, _ in found):
        return None
    return Split(steps, *(np.interp(steps, grid, statistics.mean(s)) for grid, s in found))


def _on_grid(group: Group, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Common steps, and the values of the seeds there."""
    return statistics.align([record.curve(key) for record in group.records], POINTS)
