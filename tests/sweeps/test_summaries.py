"""The summary of a run: counts, measures, and its file."""

import math

import pytest

from capo.config import Config
from capo.errors import UsageError
from capo.paper.tasks import HOPPER, PAPER
from capo.runs.reading import count_violations
from capo.sweeps import summaries
from capo.sweeps.design import Variant
from capo.sweeps.measures import RETURN
from capo.sweeps.selection import planned_run
from support.paper_runs import summary

FULL = PAPER


def test_gradient_steps_are_counted_with_the_experts():
    """There is one expert in the warmup and K after it; TRPO takes one step per expert."""
    rows = [{"warmup": 1, "epochs_run": 10}, {"warmup": 0, "epochs_run": 10}]
    rows += [{"warmup": 0, "epochs_run": 2.5}]
    wide = Config(HOPPER, algo="capo", experts=4, preset="corrected")
    assert summaries.gradient_steps(rows, wide) == 32 * (10 + 4 * 10 + 4 * 2.5)
    natural = [{"warmup": 0, "epochs_run": 1}] * 3
    assert summaries.gradient_steps(natural, Config(HOPPER, algo="trpo")) == 3
    by_trpo = wide.replace(base_optimizer="trpo")
    assert summaries.gradient_steps(rows, by_trpo) == 32 * 10 + 4 + 4


def test_violations_of_theorem_1_are_counted_by_reason():
    """The warmup does not count; a step shortened by the line search is counted separately."""
    keys = ("consensus/q_violations", "consensus/violations", "step_scale")
    found = [(0.0, 0.0, 1.0), (0.0, 1.0, 0.64), (0.0, 2.0, 1.0), (1.0, 1.0, 0.8)]
    rows = [{"warmup": 1.0}, *(dict(zip(keys, row, strict=True)) for row in found)]
    assert count_violations(rows) == (4, 1, 3, 2)
    without = {key: rows[2][key] for key in keys[:2]}
    assert count_violations([without]) == (1, 0, 1, 0), "a method without the line search"
    assert count_violations([]) == (0, 0, 0, 0)


def test_a_summary_survives_saving(tmp_path):
    made = summary(planned_run(HOPPER, Variant("ppo"), 1, FULL), 12.5)
    made = made._replace(
        diagnostics=[{"steps": 1.0, "fisher/total": 0.5}], totals={"seconds": math.nan}
    )
    summaries.save_summary(tmp_path / "a.json", made)
    kept = summaries.load_summary(tmp_path / "a.json")
    assert kept._replace(config={}, totals={}) == made._replace(config={}, totals={})
    assert Config.from_dict(kept.config) == Config.from_dict(made.config)
    assert kept.totals == {"seconds": None}
    for text in ("", "{}", "[1]", (tmp_path / "a.json").read_text().replace("12.5", "null")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(UsageError, match=r"a\.json is damaged; remove it"):
            summaries.load_summary(tmp_path / "a.json")


def test_the_return_is_that_of_the_evaluation():
    made = summary(planned_run(HOPPER, Variant("ppo"), 1, FULL), 12.5)
    assert RETURN.of(made) == 12.5
