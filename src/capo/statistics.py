"""Statistics of a few seeds: what they say about a method, and how sure that is.

Values stand on the last axis; whatever axes come before it are kept.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

RESAMPLES = 10_000

Values = Float[np.ndarray, "*batch n"]
Found = Float[np.ndarray, "*batch"]


def mean(values: Values) -> Found:
    """x̄ = (1/n) Σ x_i."""
    return np.asarray(np.mean(values, axis=-1))


def standard_error(values: Values) -> Found:
    """Of the mean, s/√n with s² = Σ (x_i − x̄)² / (n − 1); not a number for one value."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(np.std(values, axis=-1, ddof=1) / np.sqrt(n))


def iqm(values: Values) -> Found:
    """Interquartile mean, 2 ∫ Q(u) du from 1/4 to 3/4, with Q the quantiles of the values.

    Σ w_i x_(i) over the sorted values, where w_i is twice what [(i − 1)/n, i/n] shares with
    [1/4, 3/4]: where n is not a multiple of 4, the values at the edges count in part.
    """
    n = values.shape[-1]
    edges = np.clip(np.arange(n + 1) / n, 0.25, 0.75)
    return np.asarray(np.sort(values, axis=-1) @ (2 * np.diff(edges)))


def probability_of_improvement(
    x: Float[np.ndarray, "*batch n"], y: Float[np.ndarray, "*batch m"]
) -> Found:
    """P(X > Y) + ½ P(X = Y) = (1/nm) Σ_ij [1(x_i > y_j) + ½ 1(x_i = y_j)].

    The Mann–Whitney U of x over its largest value nm.
    """
    left, right = x[..., :, None], y[..., None, :]
    wins, ties = (np.mean(found, axis=(-2, -1)) for found in (left > right, left == right))
    return np.asarray(wins + 0.5 * ties)


def align(
    curves: Sequence[tuple[Float[np.ndarray, "_"], Float[np.ndarray, "_"]]], most: int
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, "steps seeds"]]:
    """Steps that all curves reached, and y_i there, linear between a curve's own points.

    The curves' own steps where these are all alike and at most `most`, else that many at equal
    distances. Curves without points do not count; where the others share no step, none is left.
    """
    found = [(steps, values) for steps, values in curves if len(steps)]
    begin = max((steps[0] for steps, _ in found), default=np.inf)
    end = min((steps[-1] for steps, _ in found), default=-np.inf)
    if begin > end:
        return np.empty(0), np.empty((0, len(found)))
    grid = found[0][0]
    if len(grid) > most or any(not np.array_equal(steps, grid) for steps, _ in found):
        points = min(most, max(len(steps) for steps, _ in found))
        grid = np.unique(np.linspace(begin, end, points))
    return grid, np.stack([np.interp(grid, steps, values) for steps, values in found], axis=-1)


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *samples: Float[np.ndarray, "..."],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Percentile interval: the (1 − c)/2 and (1 + c)/2 quantiles of statistic(x*, y*, …).

    Every sample is a stratum of its own: x* has the size of x and is drawn from x alone, with
    replacement. Its leading axes are drawn together, so that a seed stays one curve. One value has
    nothing to draw from, and the interval is not a number.
    """
    rng = np.random.default_rng(seed)
    drawn = [x[..., rng.integers(x.shape[-1], size=(resamples, x.shape[-1]))] for x in samples]
    found = statistic(*drawn)
    if any(x.shape[-1] < 2 for x in samples):
        found = np.full_like(found, np.nan)
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2], axis=-1)
    return low, high
