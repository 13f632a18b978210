"""Runs are found by their configuration, whatever their files are called."""

import json
from pathlib import Path

import pytest

from capo.config import Config
from capo.paper.design import Variant
from capo.paper.experiments import EXPERIMENTS
from capo.paper.matching import find_runs
from capo.paper.reports import runs_used
from capo.paper.run_keys import run_key
from capo.paper.selection import Selection, planned_run
from capo.paper.store import Store
from capo.paper.summaries import save_summary
from capo.paper.tasks import HOPPER
from support.paper_runs import summary

FULL = Selection()
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
    assert run_key(Config(HOPPER, algo="ppo", seed=1)) == PLAIN.key, "auto means the same"
    spelled_out = config.replace(truncation="terminate", distill_init="incumbent")
    assert (
        run_key(spelled_out)
        == planned_run(HOPPER, Variant("ppo"), 1, Selection(preset="paper")).key
    )


@pytest.mark.parametrize(
    "change",
    [{"epochs": 9}, {"seed": 2}, {"total_steps": 10**6 + 1}, {"hidden": (64,)}, {"algo": "capo"},
     {"diagnostics": 0}, {"env_id": "Hopper-v5"}, {"learning_rate": 2.9e-4}],
)  # fmt: skip
def test_everything_else_does(change):
    assert run_key(PLAIN.config.replace(**change)) != PLAIN.key


def test_seeds_of_one_length_are_found_in_order(store):
    for seed, steps in ((12, "2M"), (1, "2M"), (3, "200k")):
        selection = Selection(steps={"2M": 2_000_000, "200k": 200_000}[steps])
        keep(store, planned_run(HOPPER, Variant("ppo"), seed, selection), f"{seed} {steps}")
    keep(store, planned_run(HOPPER, Variant("ppo-kx"), 1, FULL), "another method")
    found = store.results()
    longest = find_runs(HOPPER, Variant("ppo"), FULL, found)
    assert [(key.seed, key.total_steps) for key in longest] == [(1, 2_000_000), (12, 2_000_000)]
    asked = find_runs(HOPPER, Variant("ppo"), Selection(steps=200_000), found)
    assert [key.seed for key in asked] == [3]
    assert not find_runs(HOPPER, Variant("ppo"), Selection(steps=300_000), found)


def test_every_kept_summary_is_used():
    found = Store(Path(__file__).parents[2] / "results").results()
    assert found
    assert runs_used(list(EXPERIMENTS), FULL, found).keys() == found.keys()


def begin(store, name, config):
    """A run folder as it is left by a run that was interrupted early."""
    (store.runs / name).mkdir()
    (store.runs / name / "config.json").write_text(json.dumps(config.to_dict()))


def test_a_run_folder_is_found_whatever_its_name(store):
    begin(store, "renamed", PLAIN.config.replace(workers=0))
    assert store.folder(PLAIN) == store.runs / "renamed"
    assert store.log(PLAIN) == store.runs / "renamed.log"


def test_the_folder_of_another_configuration_is_left_alone(store):
    begin(store, PLAIN.name, PLAIN.config.replace(epochs=9))
    keep(store, PLAIN, f"{PLAIN.name}~2", epochs=8)
    assert store.folder(PLAIN) == store.runs / f"{PLAIN.name}~3"


def test_a_folder_without_a_configuration_is_nobodys(store):
    (store.runs / PLAIN.name).mkdir()
    (store.runs / PLAIN.name / "config.json").write_text('{"env_id"')
    assert store.folder(PLAIN) == store.runs / PLAIN.name
