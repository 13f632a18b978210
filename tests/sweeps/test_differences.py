"""Differences between two variants, seed by seed."""

import math

import pytest

from capo.paper.experiments import EXPERIMENTS
from capo.paper.tasks import HOPPER, HUMANOID, PAPER
from capo.sweeps.design import Variant
from capo.sweeps.differences import paired_differences
from capo.sweeps.results import Results
from support.paper_runs import add

FULL = PAPER


def test_a_change_is_judged_seed_by_seed():
    """Only seeds that both variants have count, and only runs of equal length."""
    found = add({}, HOPPER, Variant("ppo"), [1000, 3000, 2000])
    add(found, HOPPER, Variant("capo"), [1100, 3300])
    add(found, HUMANOID, Variant("ppo"), [500])
    add(found, HUMANOID, Variant("capo"), [900], PAPER._replace(steps=1_000_000))
    made = paired_differences(EXPERIMENTS["main"], Results(found, FULL))
    row = ("`capo` − `ppo`",)
    entry = made.entries[row, HOPPER]
    assert entry.values == (100, 300)
    assert (entry.ours, entry.gap) == ("200 ± 100 (2)", "≈ +1.3 σ")
    assert entry.published.mean == 2397 - 2711
    assert entry.published.error == pytest.approx(math.hypot(286, 268))
    assert made.entries[row, HUMANOID].ours == "not run"
    assert (
        paired_differences(EXPERIMENTS["main"], Results(found, PAPER._replace(algos=("capo",))))
        is None
    )
    assert paired_differences(EXPERIMENTS["depth"], Results(found, FULL)) is None


def test_a_contrast_changes_one_setting():
    for contrast in (*EXPERIMENTS["attribution"].contrasts, *EXPERIMENTS["carry"].contrasts):
        after, before = (dict(each.changes) for each in (contrast.after, contrast.before))
        changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
        several = contrast.after.algo != contrast.before.algo
        # capo has the line search on, so that pooling alone is capo without it.
        if contrast.name.startswith("pooling"):
            assert (after, before) == ({"line_search": "off"}, {})
        else:
            assert len(changed) + several == 1
