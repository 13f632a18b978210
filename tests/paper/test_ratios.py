"""Ratios of training returns, seed by seed."""

import math

import numpy as np
import pytest
from scipy import stats

from capo.paper.arms import REFERENCE, SEARCH, TWINS
from capo.paper.design import Contrast
from capo.paper.figures import ratio_figure
from capo.paper.matching import count_runs
from capo.paper.ratios import ESCAPED, MEAN, RatioEntry, log_ratios
from capo.paper.reports import build_tables
from capo.paper.selection import Selection
from capo.paper.tasks import ANT, CHEETAH, HOPPER
from support.paper_runs import add

FULL = Selection()
ARM, TWIN = next(iter(TWINS.items()))


def test_ratios_are_of_the_second_half_and_of_the_same_seed():
    """A line from 0 to the score has a second half of 0.775 of it at these points: it cancels."""
    found = add({}, HOPPER, REFERENCE, [1000, 2000, 4000], first=11)
    add(found, HOPPER, ARM, [2000, 1000], first=12)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), FULL, found)
    assert ratios == pytest.approx({12: 0.0, 13: -math.log(4)})
    flat_then_high = {"steps": [4e5, 6e5, 1e6], "return": [1.0, 300.0, 500.0]}
    add(found, HOPPER, ARM, [0], first=11, curve=flat_then_high)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), FULL, found)
    assert ratios[11] == pytest.approx(math.log(400 / 775))


def test_a_negative_return_counts_as_one():
    found = add({}, HOPPER, REFERENCE, [1000], first=11)
    add(found, HOPPER, ARM, [-50], first=11)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), FULL, found)
    assert ratios[11] == pytest.approx(-math.log(775))


def test_the_interval_is_students():
    values = np.array([0.1, 0.4, -0.2, 0.3])
    entry = RatioEntry(tuple(values), None, 2)
    expected = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert entry.interval == pytest.approx(expected)
    assert entry.ours == "+16% [−24, +77] (4)"
    assert RatioEntry((0.1,), None, 2).ours == "+11% (1)"
    assert RatioEntry((), None, 2).ours == "not run"


def test_the_mean_needs_every_task_and_other_seeds_stay_out():
    found = {}
    for env_id in SEARCH.envs:
        add(found, env_id, REFERENCE, [1000, 1000, 1000], first=11)
        add(found, env_id, TWIN, [1000, 1000, 1000], first=11)
        add(found, env_id, ARM, [2000, 2000], first=11)
        add(found, env_id, ARM, [9999, 9999], first=1)
    add(found, ANT, ARM, [4000], first=13)
    over_ppo, over_twin, *_ = build_tables(SEARCH, FULL, found)
    row = (ARM.marked,)
    assert over_ppo.entries[row, MEAN].values == pytest.approx((math.log(2), math.log(2)))
    assert len(over_ppo.entries[row, ANT].values) == 3
    assert over_twin.entries[row, MEAN].values == pytest.approx((math.log(2), math.log(2)))
    assert count_runs(SEARCH, FULL, found).others == 0
    figure = ratio_figure(SEARCH, FULL, found)
    assert [axes.get_title() for axes in figure.axes] == [MEAN, *SEARCH.envs]


def test_escapes_are_counted_on_the_bimodal_task():
    found = add({}, CHEETAH, REFERENCE, [1700, 4500, 1600], first=11)
    add(found, CHEETAH, ARM, [4500, 4400, 1700], first=11)
    table, *_ = build_tables(SEARCH, FULL, found)
    assert table.entries[(ARM.marked,), ESCAPED].values == (1.0, 1.0, 0.0)


def test_a_twin_differs_only_in_the_number_of_experts():
    for arm, twin in TWINS.items():
        ours, theirs = dict(arm.changes), dict(twin.changes)
        assert ours.pop("experts") > 1
        assert arm.algo in {"capo-avg", "capo"}
        assert twin.algo == "ppo"
        # PPO keeps its own moments where several experts average theirs.
        pair = ours.pop("carry"), theirs.pop("carry")
        assert pair in {("reset", "reset"), ("average", "best")}
        assert ours.pop("warmup", 0.0) == 0.0, "PPO has no warmup"
        assert ours == theirs
