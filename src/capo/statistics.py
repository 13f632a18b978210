"""Statistics over seeds: means, interquartile means, and bootstrap intervals.

The last axis is the seeds; leading axes are kept. NumPy alone: SciPy's bootstrap draws the same
samples, but importing `scipy.stats` would add more than half to the time of `capo compare`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

RESAMPLES, CURVE_RESAMPLES = 10_000, 2_000

Values = Float[np.ndarray, "*batch n"]
Statistic = Float[np.ndarray, "*batch"]


def mean(values: Values) -> Statistic:
    """x̄ = (1/n) Σ x_i."""
    return np.asarray(np.mean(values, axis=-1))


def standard_error(values: Values) -> Statistic:
    """Standard error of the mean, s/√n with s² = Σ (x_i − x̄)² / (n − 1); NaN for one value."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(np.std(values, axis=-1, ddof=1) / np.sqrt(n))


def iqm(values: Values) -> Statistic:
    """Interquartile mean, 2 ∫ Q(u) du from 1/4 to 3/4, with Q the quantiles of the values.

    Σ w_i x_(i) over the sorted values, where w_i is twice the overlap of [(i − 1)/n, i/n] with
    [1/4, 3/4]. If n is not a multiple of 4, the values at the edges have fractional weights, which
    `scipy.stats.trim_mean` does not do.
    """
    n = values.shape[-1]
    edges = np.clip(np.arange(n + 1) / n, 0.25, 0.75)
    return np.asarray(np.sort(values, axis=-1) @ (2 * np.diff(edges)))


def probability_of_improvement(
    x: Float[np.ndarray, "*batch n"], y: Float[np.ndarray, "*batch m"]
) -> Statistic:
    """P(X > Y) + ½ P(X = Y) = (1/nm) Σ_ij [1(x_i > y_j) + ½ 1(x_i = y_j)].

    The Mann–Whitney U of x divided by its maximum nm.
    """
    left, right = x[..., :, None], y[..., None, :]
    wins, ties = (np.mean(pairs, axis=(-2, -1)) for pairs in (left > right, left == right))
    return np.asarray(wins + 0.5 * ties)


def align(
    curves: Sequence[tuple[Float[np.ndarray, "_"], Float[np.ndarray, "_"]]], most: int
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, "steps seeds"]]:
    """A grid of steps common to all curves, and their values there by linear interpolation.

    The grid is the curves' own steps if these are equal and at most `most`, else up to `most` steps
    at equal distances. Empty curves are ignored; without a common range the grid is empty.
    """
    nonempty = [(steps, values) for steps, values in curves if len(steps)]
    begin = max((steps[0] for steps, _ in nonempty), default=np.inf)
    end = min((steps[-1] for steps, _ in nonempty), default=-np.inf)
    if begin > end:
        return np.empty(0), np.empty((0, len(nonempty)))
    grid = nonempty[0][0]
    if len(grid) > most or any(not np.array_equal(steps, grid) for steps, _ in nonempty):
        points = min(most, max(len(steps) for steps, _ in nonempty))
        grid = np.unique(np.linspace(begin, end, points))
    return grid, np.stack([np.interp(grid, steps, values) for steps, values in nonempty], axis=-1)


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *samples: Float[np.ndarray, "..."],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Percentile interval: the (1 − c)/2 and (1 + c)/2 quantiles of statistic(x*, y*, …).

    Every sample is its own stratum: x* has the size of x and is drawn from x with replacement.
    Leading axes share the draws, so that a seed stays one curve. The interval of a single value is
    NaN.
    """
    rng = np.random.default_rng(seed)
    drawn = [x[..., rng.integers(x.shape[-1], size=(resamples, x.shape[-1]))] for x in samples]
    values = statistic(*drawn)
    if any(x.shape[-1] < 2 for x in samples):
        values = np.full_like(values, np.nan)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2], axis=-1)
    return low, high


class Curve(NamedTuple):
    """Mean over seeds and its bootstrap interval, on steps that all seeds reached."""

    steps: Float[np.ndarray, " steps"]
    mean: Float[np.ndarray, " steps"]
    low: Float[np.ndarray, " steps"]
    high: Float[np.ndarray, " steps"]
    seeds: int


def mean_curve(
    curves: Sequence[tuple[Float[np.ndarray, "_"], Float[np.ndarray, "_"]]],
    most: int,
    confidence: float = 0.95,
) -> Curve | None:
    """The mean of some curves on at most `most` common steps; None if they share no steps."""
    steps, seeds = align(curves, most)
    if not len(steps):
        return None
    low, high = bootstrap(mean, seeds, confidence=confidence, resamples=CURVE_RESAMPLES)
    return Curve(steps=steps, mean=mean(seeds), low=low, high=high, seeds=seeds.shape[-1])
