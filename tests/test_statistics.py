"""Statistics over seeds: by hand, against SciPy, and their invariances."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from capo.statistics import (
    align,
    bootstrap,
    iqm,
    mean,
    probability_of_improvement,
    standard_error,
)

finite = st.floats(-1e6, 1e6)
samples = st.lists(finite, min_size=1, max_size=12).map(np.array)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_mean_and_standard_error_by_hand():
    values = np.array([1.0, 2.0, 6.0])
    assert mean(values) == 3.0
    assert standard_error(values) == pytest.approx(math.sqrt(7 / 3))
    assert standard_error(values) == pytest.approx(scipy.stats.sem(values))
    assert np.isnan(standard_error(np.array([5.0])))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 3.0, 9.0], (0.25 * 0 + 1 * 3 + 0.25 * 9) / 1.5),
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 100.0], (0.75 * 1 + 2 + 0.75 * 3) / 2.5),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 100.0], (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3),
    ],
)
def test_iqm_by_hand(values, expected):
    assert iqm(np.array(values)) == pytest.approx(expected)


@pytest.mark.parametrize("n", [4, 8, 12, 40])
def test_iqm_is_scipys_trimmed_mean_where_quarters_are_whole(n):
    values = drawn(n, seed=n)
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25))


def test_iqm_weights_partial_quarters():
    for n in range(1, 10):
        values = drawn(n, seed=n)
        assert iqm(values) == pytest.approx(scipy.stats.trim_mean(np.repeat(values, 4), 0.25))


@given(samples, st.floats(0.1, 10), finite)
def test_iqm_is_equivariant_and_within_the_range(values, scale, shift):
    assert iqm(scale * values + shift) == pytest.approx(scale * iqm(values) + shift, abs=1e-6)
    assert values.min() - 1e-6 <= iqm(values) <= values.max() + 1e-6
    assert iqm(values[::-1]) == iqm(values)


def test_probability_of_improvement_by_hand():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0])
    # Of six pairs: 1>0, 2>0, 3>2, 3>0 are won and 2=2 is a tie.
    assert probability_of_improvement(x, y) == 4.5 / 6


@given(samples, samples)
def test_probability_of_improvement_is_mann_whitney(x, y):
    u = scipy.stats.mannwhitneyu(x, y, method="asymptotic").statistic
    assert probability_of_improvement(x, y) == pytest.approx(u / (len(x) * len(y)))
    other = probability_of_improvement(y, x)
    assert probability_of_improvement(x, y) + other == pytest.approx(1.0)
    assert probability_of_improvement(x, x) == 0.5


def test_probability_of_improvement_depends_on_order_alone():
    x, y = drawn(5, seed=1), drawn(7, seed=2)
    assert probability_of_improvement(np.exp(x), np.exp(y)) == probability_of_improvement(x, y)


@pytest.mark.parametrize(
    ("statistic", "shapes"),
    [(mean, [(9,)]), (iqm, [(9,)]), (mean, [(20, 5)]), (probability_of_improvement, [(5,), (7,)])],
)
def test_bootstrap_is_scipys_draw_for_draw(statistic, shapes):
    values = [drawn(*shape, seed=len(shape)) for shape in shapes]
    theirs = scipy.stats.bootstrap(
        values,
        lambda *samples, axis: statistic(*samples),
        axis=-1,
        confidence_level=0.9,
        method="percentile",
        n_resamples=1_000,
        rng=np.random.default_rng(3),
    ).confidence_interval
    ours = bootstrap(statistic, *values, confidence=0.9, resamples=1_000, seed=3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_bootstrap_of_two_strata_is_the_quantile_over_every_possible_draw():
    """Small enough to draw all of them: 3³ · 2² resamples, all equally likely."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.5, 0.5])
    every = [
        float(probability_of_improvement(np.array(a), np.array(b)))
        for a in itertools.product(x, repeat=3)
        for b in itertools.product(y, repeat=2)
    ]
    low, high = bootstrap(probability_of_improvement, x, y, confidence=0.8, resamples=50_000)
    assert low == pytest.approx(np.quantile(every, 0.1, method="inverted_cdf"))
    assert high == pytest.approx(np.quantile(every, 0.9, method="inverted_cdf"))


def test_bootstrap_is_the_same_every_time_and_widens_with_confidence():
    values = drawn(6, seed=4)
    assert bootstrap(iqm, values) == bootstrap(iqm, values)
    (low, high), (lower, higher) = (bootstrap(iqm, values, confidence=c) for c in (0.5, 0.99))
    assert lower < low < iqm(values) < high < higher


def test_bootstrap_resamples_whole_curves():
    """Curves that differ by a constant keep that distance at every step of every bound."""
    seeds = drawn(5, seed=5)
    low, high = bootstrap(mean, np.stack([seeds, seeds + 3.0]))
    np.testing.assert_allclose([low[1] - low[0], high[1] - high[0]], 3.0)


def test_one_value_has_no_interval():
    assert np.isnan(bootstrap(mean, np.array([5.0]))).all()
    pair = bootstrap(probability_of_improvement, np.array([5.0]), drawn(4))
    assert np.isnan(pair).all()


def test_intervals_cover_the_truth_at_the_nominal_rate():
    """Percentile intervals of ten seeds are a little short of 95%; far off would be a mistake."""
    hits = [
        low <= 0.0 <= high
        for low, high in (
            bootstrap(mean, drawn(10, seed=seed), resamples=1_000) for seed in range(300)
        )
    ]
    assert 0.85 < np.mean(hits) < 0.97


def test_curves_with_the_same_steps_keep_them():
    steps = np.array([1.0, 2.0, 5.0])
    grid, seeds = align([(steps, steps), (steps, 3 * steps)], most=3)
    np.testing.assert_array_equal(grid, steps)
    np.testing.assert_array_equal(seeds, np.stack([steps, 3 * steps], axis=-1))


def test_curves_with_other_steps_are_averaged_where_they_overlap():
    one, other = np.array([0.0, 4.0, 8.0]), np.array([2.0, 6.0])
    grid, seeds = align([(one, 10 * one), (other, -other), (np.empty(0), np.empty(0))], most=100)
    np.testing.assert_array_equal(grid, [2.0, 4.0, 6.0])
    np.testing.assert_allclose(seeds, [[20.0, -2.0], [40.0, -4.0], [60.0, -6.0]])


def test_a_long_curve_is_thinned_evenly():
    steps = np.arange(1000.0)
    grid, seeds = align([(steps, steps)], most=4)
    np.testing.assert_allclose(grid, [0, 333, 666, 999])
    np.testing.assert_allclose(seeds[:, 0], grid)


def test_curves_without_a_common_step_give_none():
    early, late = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert align([(early, early), (late, late)], most=9)[0].size == 0
    assert align([], most=9)[0].size == 0
