"""Statistics of final returns: for each group, and over environments."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from capo import statistics
from capo.compare.groups import Group
from capo.statistics import bootstrap, iqm, probability_of_improvement

FEW_SEEDS = 5
"""Below this number of seeds an interval is a rough estimate."""


class Estimate(NamedTuple):
    """A number and its bootstrap interval."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


class GroupResult(NamedTuple):
    """Final returns of a group and their statistics."""

    group: Group
    scores: np.ndarray
    """Final return of each seed."""
    mean: float
    error: float
    iqm: Estimate
    reference: str | None
    """Label of the group that this one is compared with; None for the reference itself."""
    better: Estimate
    """P(a run of this group beats a run of the reference)."""
    without_evaluation: int
    """Number of seeds whose final return is the last training return."""


class OverallResult(NamedTuple):
    """Mean probability that a method beats the reference, over the environments with both."""

    label: str
    reference: str
    environments: int
    better: Estimate


def group_results(groups: list[Group], confidence: float) -> tuple[list[GroupResult], list[str]]:
    """The result of each group with a return, and notes on the results."""
    results, notes = [], []
    for _, here in itertools.groupby(groups, key=lambda g: g.env_id):
        scored = [(g, _scores(g, notes)) for g in here]
        scored = [(g, scores) for g, scores in scored if len(scores)]
        for g, scores in scored:
            results.append(_result(g, scores, scored[0], confidence))
    if any(len(result.scores) < FEW_SEEDS for result in results):
        notes.append(f"Some groups have fewer than {FEW_SEEDS} seeds: their intervals are rough.")
    if any(result.better.low == result.better.high for result in results):
        notes.append("An interval of zero width means only that these seeds agree.")
    return results, notes


def _scores(group: Group, notes: list[str]) -> np.ndarray:
    values = [(record.seed, record.score.value) for record in group.records]
    for seed, value in values:
        if math.isnan(value):
            notes.append(
                f"{group.env_id}, {group.label}: seed {seed} has no return yet and is ignored"
            )
    return np.array([value for _, value in values if not math.isnan(value)])


def _result(
    group: Group, scores: np.ndarray, first: tuple[Group, np.ndarray], confidence: float
) -> GroupResult:
    several = len(scores) > 1
    middle, better, reference = Estimate(), Estimate(), None
    if several:
        middle = _estimate(iqm, scores, confidence=confidence)
    if group is not first[0]:
        reference = first[0].label
        if several and len(first[1]) > 1:
            better = _estimate(probability_of_improvement, scores, first[1], confidence=confidence)
    mean, error = float(statistics.mean(scores)), float(statistics.standard_error(scores))
    training = sum(bool(record.score.mark) for record in group.records)
    return GroupResult(group, scores, mean, error, middle, reference, better, training)


def _estimate(statistic, *samples: np.ndarray, confidence: float) -> Estimate:
    low, high = bootstrap(statistic, *samples, confidence=confidence)
    return Estimate(float(statistic(*samples)), float(low), float(high))


def overall_results(results: list[GroupResult], confidence: float) -> list[OverallResult]:
    """Mean probability of improvement over environments, for methods in several of them.

    The bootstrap resamples each environment and method separately.
    """
    scores = {(r.group.env_id, r.group.label): r.scores for r in results}
    pairs: dict[tuple[str, str], list[np.ndarray]] = {}
    for r in results:
        if r.reference is not None and not math.isnan(r.better.value):
            strata = pairs.setdefault((r.group.label, r.reference), [])
            strata += [r.scores, scores[r.group.env_id, r.reference]]
    several = {
        pair: pairs[pair] for pair in sorted(pairs, key=lambda p: p[1]) if len(pairs[pair]) > 2
    }
    return [
        OverallResult(
            label=label,
            reference=reference,
            environments=len(strata) // 2,
            better=_estimate(_improvement, *strata, confidence=confidence),
        )
        for (label, reference), strata in several.items()
    ]


def _improvement(*strata: np.ndarray) -> np.ndarray:
    """(1/M) Σ P(X_m > Y_m) over the environments m."""
    pairs = zip(strata[::2], strata[1::2], strict=True)
    return np.asarray(np.mean([probability_of_improvement(x, y) for x, y in pairs], axis=0))
