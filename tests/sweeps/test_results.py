"""Runs are found by their configuration, whatever their files are called."""

import json
from pathlib import Path

import pytest

from capo.config import Config
from capo.methods import settle
from capo.paper.arms import TRIAL_SEEDS
from capo.paper.experiments import EXPERIMENTS
from capo.paper.reports import runs_used
from capo.paper.tasks import HOPPER, PAPER, VECTOR
from capo.sweeps.design import Variant
from capo.sweeps.keys import run_key
from capo.sweeps.results import Results
from capo.sweeps.selection import planned_run
from capo.sweeps.store import Store
from capo.sweeps.summaries import save_summary
from support.paper_runs import summary

FULL = PAPER
PLAIN = planned_run(HOPPER, Variant("ppo"), 1, FULL)


def keep(store, run, name, **changes):
    """Writes a summary of the run, with some fields changed, under a name."""
    made = summary(run)
    save_summary(store.summaries / f"{name}.json", made._replace(config={**made.config, **changes}))


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    made.create()
    return made


def test_a_summary_is_found_whatever_its_name(store):
    keep(store, PLAIN, "copied from another machine")
    keep(store, planned_run(HOPPER, Variant("capo"), 1, FULL), PLAIN.name)
    found = store.results()
    assert found[PLAIN.key].algo == "ppo"
    assert len(found) == 2


def test_what_does_not_decide_the_numbers_does_not_matter():
    config = PLAIN.config
    assert run_key(config.replace(backend="gymnasium", workers=2)) == PLAIN.key
    same = settle(Config(HOPPER, algo="ppo", seed=1, preset="corrected"), VECTOR)
    assert run_key(same.plain()) == PLAIN.key, "auto means the same"
    spelled_out = config.replace(truncation="terminate", distill_init="incumbent")
    assert (
        run_key(spelled_out)
        == planned_run(HOPPER, Variant("ppo"), 1, PAPER._replace(preset="paper")).key
    )


@pytest.mark.parametrize(
    "change",
    [{"epochs": 9}, {"seed": 2}, {"total_steps": 10**6 + 1}, {"hidden": (64,)}, {"algo": "capo"},
     {"diagnostics": 0}, {"env_id": "Hopper-v5"}, {"learning_rate": 2.9e-4}],
)  # fmt: skip
def test_everything_else_does(change):
    assert run_key(PLAIN.config.plain().replace(**change)) != PLAIN.key


def test_seeds_of_one_length_are_found_in_order(store):
    for seed, steps in ((12, "2M"), (1, "2M"), (3, "200k")):
        selection = PAPER._replace(steps={"2M": 2_000_000, "200k": 200_000}[steps])
        keep(store, planned_run(HOPPER, Variant("ppo"), seed, selection), f"{seed} {steps}")
    keep(store, planned_run(HOPPER, Variant("ppo-kx"), 1, FULL), "another method")
    found = store.results()
    longest = Results(found, FULL).of(HOPPER, Variant("ppo"))
    assert [(key.seed, key.total_steps) for key in longest] == [(1, 2_000_000), (12, 2_000_000)]
    asked = Results(found, PAPER._replace(steps=200_000)).of(HOPPER, Variant("ppo"))
    assert [key.seed for key in asked] == [3]
    assert not Results(found, PAPER._replace(steps=300_000)).of(HOPPER, Variant("ppo"))


def test_every_kept_summary_is_used():
    """By a preset's tables, apart from those of a search whose settings led nowhere."""
    found = Store(Path(__file__).parents[2] / "results").results()
    assert found
    used = {
        key
        for preset in ("corrected", "paper")
        for key in runs_used(list(EXPERIMENTS), Results(found, PAPER._replace(preset=preset)))
    }
    assert {key.seed for key in found.keys() - used} <= set(TRIAL_SEEDS)


def begin(store, name, config):
    """A run folder as it is left by a run that was interrupted early."""
    (store.runs / name).mkdir()
    (store.runs / name / "config.json").write_text(json.dumps(config.to_dict()))


def test_a_run_folder_is_found_whatever_its_name(store):
    begin(store, "renamed", PLAIN.config.replace(workers=0))
    assert store.folder(PLAIN) == store.runs / "renamed"
    assert store.job(PLAIN).log == store.runs / "renamed.log"


def test_the_folder_of_another_configuration_is_left_alone(store):
    begin(store, PLAIN.name, PLAIN.config.replace(epochs=9))
    keep(store, PLAIN, f"{PLAIN.name}~2", epochs=8)
    assert store.folder(PLAIN) == store.runs / f"{PLAIN.name}~3"


def test_a_folder_without_a_configuration_is_nobodys(store):
    (store.runs / PLAIN.name).mkdir()
    (store.runs / PLAIN.name / "config.json").write_text('{"env_id"')
    assert store.folder(PLAIN) == store.runs / PLAIN.name
