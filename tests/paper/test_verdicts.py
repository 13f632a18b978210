"""Verdicts on claims: when a difference between means counts."""

import math

import pytest

from capo.paper.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    about_equal,
    above,
    beyond,
    direction,
    grows_faster,
    no_worse,
    peak,
    small_spread,
    smaller_spread,
)
from capo.sweeps.design import Published
from capo.sweeps.tables import Entry


def entry(mean, error, published=None):
    """Two seeds with this mean and standard error."""
    values = (float(mean - error), float(mean + error))
    return Entry(values, None if published is None else Published(published), 1)


@pytest.mark.parametrize(
    ("gap", "word"),
    [
        (2.01, HOLDS),
        (2.0, UNDECIDED),
        (0.0, UNDECIDED),
        (-2.0, UNDECIDED),
        (-2.01, FAILS),
        (math.nan, UNDECIDED),
    ],
)
def test_a_difference_of_two_standard_errors_decides(gap, word):
    assert direction(gap, 1.0) == word


def test_means_are_compared_by_the_combined_error():
    # √(3² + 4²) = 5, so 10 is the border.
    for gap, word in ((10.1, HOLDS), (9.9, UNDECIDED), (-9.9, UNDECIDED), (-10.1, FAILS)):
        assert above({"a": entry(100 + gap, 3), "b": entry(100, 4)}).word == word
    said = above({"a": entry(115, 3, 7), "b": entry(100, 4)}).numbers
    assert said == "a 115.0 ± 3.0 (2), b 100.0 ± 4.0 (2); +3.0 σ; paper: a 7.0"


@pytest.mark.parametrize(
    "rule",
    [
        above,
        about_equal,
        small_spread,
        no_worse,
        lambda e: beyond(e, 0.0, 1),
        lambda e: smaller_spread(e, ("a", "b")),
    ],
)
def test_one_seed_is_undecided_and_no_seed_is_not_run(rule):
    whole = entry(500, 0.1)
    assert rule({"a": Entry((1e6,), None, 0), "b": whole})[0] == UNDECIDED
    assert "one seed" in rule({"a": Entry((1e6,), None, 0), "b": whole}).numbers
    assert rule({"a": Entry((), None, 0), "b": whole}).word == "not run"


def test_bounds_and_peaks():
    assert beyond({"x": entry(0.9, 0.04)}, 1.0, -1).word == HOLDS
    assert beyond({"x": entry(0.9, 0.06)}, 1.0, -1).word == UNDECIDED
    assert beyond({"x": entry(1.2, 0.04)}, 1.0, -1).word == FAILS
    assert beyond({"x": entry(1.2, 0.04)}, 1.0, 1).word == HOLDS
    low, high = entry(0.2, 0.01), entry(0.3, 0.01)
    assert peak({"a": low, "b": high, "c": low}).word == HOLDS
    assert peak({"a": low, "b": high, "c": high}).word == UNDECIDED
    assert peak({"a": high, "b": low, "c": low}).word == FAILS


def test_equality_needs_small_errors():
    """Equal means hold with small errors and are undecided with large ones."""
    for rule in (about_equal, no_worse):
        assert rule({"a": entry(100, 2), "b": entry(103, 2)}).word == HOLDS
        assert rule({"a": entry(100, 20), "b": entry(103, 20)}).word == UNDECIDED
    assert about_equal({"a": entry(150, 2), "b": entry(100, 2)}).word == FAILS
    assert no_worse({"a": entry(150, 2), "b": entry(100, 2)}).word == FAILS
    assert no_worse({"a": entry(100, 2), "b": entry(150, 2)}).word == HOLDS
    four = [entry(mean, 1) for mean in (100, 101, 102, 103)]
    assert small_spread(dict(zip("abcd", four, strict=True))).word == HOLDS
    # Best and worst are 3 combined errors apart at 3·√2 = 4.2.
    for last, word in ((104.2, HOLDS), (104.3, FAILS)):
        assert (
            small_spread(dict(zip("abcd", [*four[:3], entry(last, 1)], strict=True))).word == word
        )
    rough = [entry(mean, 30) for mean in (100, 110, 120, 130)]
    assert small_spread(dict(zip("abcd", rough, strict=True))).word == UNDECIDED


def test_growth_and_spread_are_relative():
    slow, fast = (entry(10, 0.1), entry(20, 0.1)), (entry(1, 0.01), entry(4, 0.04))
    names = ("signal", "waste")
    found = grows_faster(dict(zip("abcd", [*slow, *fast], strict=True)), names)
    assert found == (HOLDS, "signal ×2.00, waste ×4.00 (2)")
    assert grows_faster(dict(zip("abcd", [*fast, *slow], strict=True)), names).word == FAILS
    assert grows_faster(dict(zip("abcd", [*slow, *slow], strict=True)), names).word == UNDECIDED
    nothing = dict(zip("abcd", [entry(0, 0), *slow, *fast][:4], strict=True))
    assert grows_faster(nothing, names).word == UNDECIDED
    even, uneven = (entry(1000, 5), entry(1010, 5)), (entry(10, 0.1), entry(20, 0.1))
    found = smaller_spread(dict(zip("abcd", [*even, *uneven], strict=True)), ("capo", "ppo"))
    assert found.word == HOLDS
    assert found.numbers.startswith("capo 0.01 ± 0.01, ppo 0.67 ± 0.01 (2)")
    found = smaller_spread(dict(zip("abcd", [*uneven, *even], strict=True)), ("capo", "ppo"))
    assert found.word == FAILS
