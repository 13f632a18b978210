"""The runs of an experiment: which there are, their names and their configurations."""

from capo.cli.main import parse
from capo.paper.design import Variant
from capo.paper.experiments import EXPERIMENTS, OF_THE_PAPER
from capo.paper.run_keys import settled
from capo.paper.selection import Selection, planned_run, runs_of
from capo.paper.tasks import ANT, HOPPER, HUMANOID

FULL, SMOKE = Selection(), Selection.of_tier("smoke")


def test_a_default_value_does_not_make_another_run():
    plain = planned_run(HOPPER, Variant("capo"), 1, FULL)
    assert plain.name == "Hopper-v4__capo__1M__1"
    for field, value in (("experts", 4), ("warmup", 0.1), ("carry", "incumbent"), ("clip", 0.2)):
        assert planned_run(HOPPER, Variant("capo", "", ((field, value),)), 1, FULL) == plain
    assert planned_run(HUMANOID, Variant("ppo"), 2, FULL).name == "Humanoid-v4__ppo__4M__2"
    other = planned_run(HOPPER, Variant("capo", "", (("experts", 8),)), 1, FULL)
    assert other.name == "Hopper-v4__capo__1M__experts=8__1"
    assert planned_run(HOPPER, Variant("capo"), 1, Selection(preset="paper")).name == (
        "Hopper-v4__capo__1M__preset=paper__1"
    )


def test_experiments_share_runs():
    """PPO with default settings is run once, although several tables need it."""
    everything = runs_of(OF_THE_PAPER, FULL)
    names = [run.name for run in everything]
    assert len(set(names)) == len(names)
    alone = sum(len(runs_of([name], FULL)) for name in OF_THE_PAPER)
    assert len(names) < alone / 2
    assert [int(name.rpartition("__")[2]) for name in names] == sorted(
        int(name.rpartition("__")[2]) for name in names
    ), "the first seed of everything comes first"
    equal = {}
    for run in everything:
        equal.setdefault(run.config, []).append(run.name)
    assert all(len(found) == 1 for found in equal.values()), "equal configurations, two names"


def test_the_smoke_tier_is_small_and_has_all_methods():
    names = OF_THE_PAPER
    trial = runs_of(names, SMOKE)
    assert len(trial) < 20, "all of it is to end in two minutes"
    assert {run.config.algo for run in trial} == {run.config.algo for run in runs_of(names, FULL)}
    for name in OF_THE_PAPER:
        experiment = EXPERIMENTS[name]
        found = {run.name for run in runs_of([name], SMOKE)}
        assert any(
            "__2.56k__minibatches=2__num_envs=2__num_steps=128__hidden=8__" in x for x in found
        )
        swept = any(variant.changes for variant in experiment.variants)
        assert len(found) > len({run.split("__")[1] for run in found}) or not swept
    asked = SMOKE.narrowed(envs=(HOPPER, ANT))
    assert {run.config.env_id for run in runs_of(["main"], asked)} == {HOPPER, ANT}


def test_an_experiment_can_have_its_own_seeds():
    seeds = {run.config.seed for run in runs_of(["search"], FULL)}
    assert seeds == {11, 12, 13}
    assert {run.config.seed for run in runs_of(["search"], Selection(seeds=2))} == {11, 12}
    trial = {run.config.algo for run in runs_of(["search"], SMOKE)}
    assert trial == {"ppo", "capo"}, "a trial has the reference and one arm"


def test_the_arguments_of_a_run_give_its_configuration():
    for selection in (FULL, SMOKE, Selection(preset="paper", steps=123_456)):
        for run in runs_of(
            ["main", "depth", "carry", "attribution", "target-kl", "search"], selection
        )[::29]:
            call = parse(["train", *run.words])
            assert settled(call.keywords["config"]) == run.config, run.name
