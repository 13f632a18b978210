"""Ratios of training returns, seed by seed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from capo.config import Config
from capo.paper.arms import SHUFFLE_TWINS, TWINS
from capo.paper.reports import build_tables
from capo.paper.tasks import ANT, CHEETAH, HOPPER, PAPER
from capo.sweeps.design import Contrast, Variant
from capo.sweeps.figures import ratio_figure
from capo.sweeps.ratios import MEAN, RatioEntry, log_ratios
from capo.sweeps.results import Results
from support.paper_runs import add

FULL = PAPER
REFERENCE = Variant("ppo")
SEARCH = replace(TWINS, variants=(REFERENCE, *TWINS.variants), reference=REFERENCE)
ARM, TWIN = next(iter(SHUFFLE_TWINS.items()))


def test_ratios_are_of_the_second_half_and_of_the_same_seed():
    """A line from 0 to the score has a second half of 0.775 of it at these points: it cancels."""
    found = add({}, HOPPER, REFERENCE, [1000, 2000, 4000], first=11)
    add(found, HOPPER, ARM, [2000, 1000], first=12)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), Results(found, FULL))
    assert ratios == pytest.approx({12: 0.0, 13: -math.log(4)})
    flat_then_high = {"steps": [4e5, 6e5, 1e6], "return": [1.0, 300.0, 500.0]}
    add(found, HOPPER, ARM, [0], first=11, curve=flat_then_high)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), Results(found, FULL))
    assert ratios[11] == pytest.approx(math.log(400 / 775))


def test_a_negative_return_counts_as_one():
    found = add({}, HOPPER, REFERENCE, [1000], first=11)
    add(found, HOPPER, ARM, [-50], first=11)
    ratios = log_ratios(HOPPER, Contrast(ARM, REFERENCE), Results(found, FULL))
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
    over_ppo, over_twin, *_ = build_tables(SEARCH, Results(found, FULL))
    row = (ARM.marked,)
    assert over_ppo.entries[row, MEAN].values == pytest.approx((math.log(2), math.log(2)))
    assert len(over_ppo.entries[row, ANT].values) == 3
    assert over_twin.entries[(*row, TWIN.marked), MEAN].values == pytest.approx(
        (math.log(2), math.log(2))
    )
    assert Results(found, FULL).count(TWINS).others == 0
    figure = ratio_figure(SEARCH, Results(found, FULL))
    assert [axes.get_title() for axes in figure.axes] == [MEAN, *SEARCH.envs]


def test_an_arm_may_have_several_rivals():
    """Each ratio has a row of its own."""
    found = add({}, HOPPER, REFERENCE, [1000], first=11)
    add(found, HOPPER, TWIN, [4000], first=11)
    add(found, HOPPER, ARM, [2000], first=11)
    contrasts = (Contrast(ARM, REFERENCE), Contrast(ARM, TWIN))
    _, rivals, *_ = build_tables(replace(SEARCH, contrasts=contrasts), Results(found, FULL))
    ratios = [rivals.entries[(ARM.marked, x.marked), HOPPER].ours for x in (REFERENCE, TWIN)]
    assert ratios == ["+100% (1)", "−50% (1)"]


def test_escapes_are_counted_on_the_bimodal_task():
    found = add({}, CHEETAH, REFERENCE, [1700, 4500, 1600], first=11)
    add(found, CHEETAH, ARM, [4500, 4400, 1700], first=11)
    table, *_ = build_tables(SEARCH, Results(found, FULL))
    assert table.entries[(ARM.marked,), "HalfCheetah above 3000"].values == (1.0, 1.0, 0.0)


def test_a_twin_differs_only_in_the_number_of_experts():
    for arm, twin in SHUFFLE_TWINS.items():
        ours, theirs = dict(arm.changes), dict(twin.changes)
        assert (arm.algo, twin.algo) == ("capo-avg", "ppo")
        assert Config(HOPPER, arm.algo, **ours).experts > 1
        assert ours.pop("warmup") == 0.0, "PPO has no warmup"
        assert ours == theirs
