"""The numbers of a comparison: a row for each group, and its learning curve."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from capo import statistics
from capo.comparison.groups import Group
from capo.statistics import bootstrap, iqm, probability_of_improvement

FEW = 5
"""Fewer seeds than this, and an interval is a sketch."""


class Estimate(NamedTuple):
    """A number and its bootstrap interval."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


class Result(NamedTuple):
    """What the seeds of a group came to."""

    group: Group
    scores: np.ndarray
    """Final return of each seed."""
    mean: float
    error: float
    iqm: Estimate
    reference: str | None
    """The label that it is held against; None for the reference itself."""
    better: Estimate
    """P(a run of this beats a run of the reference)."""
    trained: int
    """Seeds that have no evaluation, so that their last training return stands for it."""


class Overall(NamedTuple):
    """How often a method beats the reference, over the environments that have both."""

    label: str
    reference: str
    environments: int
    better: Estimate


def results(groups: list[Group], confidence: float) -> tuple[list[Result], list[str]]:
    """A row for each group with a return, and what a reader must know about them."""
    found, notes = [], []
    for _, here in itertools.groupby(groups, key=lambda g: g.env_id):
        scored = [(g, _scores(g, notes)) for g in here]
        scored = [(g, scores) for g, scores in scored if len(scores)]
        for g, scores in scored:
            found.append(_result(g, scores, scored[0], confidence))
    if any(len(result.scores) < FEW for result in found):
        notes.append(f"Some groups have fewer than {FEW} seeds: their intervals are a sketch.")
    if any(result.better.low == result.better.high for result in found):
        notes.append("An interval without width says that the seeds at hand agree, not more.")
    return found, notes


def _scores(group: Group, notes: list[str]) -> np.ndarray:
    values = [(record.seed, record.score.value) for record in group.records]
    for seed, value in values:
        if math.isnan(value):
            notes.append(
                f"{group.env_id}, {group.label}: seed {seed} has no return yet and is left out"
            )
    return np.array([value for _, value in values if not math.isnan(value)])


def _result(
    group: Group, scores: np.ndarray, first: tuple[Group, np.ndarray], confidence: float
) -> Result:
    several = len(scores) > 1
    middle, better, reference = Estimate(), Estimate(), None
    if several:
        middle = _estimate(iqm, scores, confidence=confidence)
    if group is not first[0]:
        reference = first[0].label
        if several and len(first[1]) > 1:
            better = _estimate(probability_of_improvement, scores, first[1], confidence=confidence)
    mean, error = float(statistics.mean(scores)), float(statistics.standard_error(scores))
    trained = sum(bool(record.score.mark) for record in group.records)
    return Result(group, scores, mean, error, middle, reference, better, trained)


def _estimate(statistic, *samples: np.ndarray, confidence: float) -> Estimate:
    low, high = bootstrap(statistic, *samples, confidence=confidence)
    return Estimate(float(statistic(*samples)), float(low), float(high))


def overall(found: list[Result], confidence: float) -> list[Overall]:
    """Mean over environments of the probability of improvement, for methods that are in several.

    Every environment and method is a stratum of the bootstrap.
    """
    scores = {(r.group.env_id, r.group.label): r.scores for r in found}
    pairs: dict[tuple[str, str], list[np.ndarray]] = {}
    for r in found:
        if r.reference is not None and not math.isnan(r.better.value):
            strata = pairs.setdefault((r.group.label, r.reference), [])
            strata += [r.scores, scores[r.group.env_id, r.reference]]
    several = {
        pair: pairs[pair] for pair in sorted(pairs, key=lambda p: p[1]) if len(pairs[pair]) > 2
    }
    return [
        Overall(*pair, len(strata) // 2, _estimate(_improvement, *strata, confidence=confidence))
        for pair, strata in several.items()
    ]


def _improvement(*strata: np.ndarray) -> np.ndarray:
    """(1/M) Σ P(X_m > Y_m) over the environments m."""
    pairs = zip(strata[::2], strata[1::2], strict=True)
    return np.asarray(np.mean([probability_of_improvement(x, y) for x, y in pairs], axis=0))
