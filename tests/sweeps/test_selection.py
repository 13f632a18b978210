"""The runs of an experiment: which there are, their names and their configurations."""

import gymnasium as gym
import numpy as np

from capo.cli.main import parse
from capo.config import Config
from capo.paper.experiments import EXPERIMENTS, OF_THE_PAPER
from capo.paper.tasks import ANT, HOPPER, HUMANOID, PAPER, of_tier
from capo.sweeps.design import Variant
from capo.sweeps.jobs import Job
from capo.sweeps.keys import run_key
from capo.sweeps.selection import Selection, planned_run, runs_of
from support.probes import Target


class Picture(gym.ObservationWrapper):
    """Target with a 5 × 5 image as the observation."""

    observation_space = gym.spaces.Box(0, 255, (5, 5, 1), np.uint8)

    def observation(self, obs):
        return np.zeros((5, 5, 1), np.uint8)


FULL, SMOKE = PAPER, of_tier("smoke")


def runs_named(names, selection):
    return runs_of([EXPERIMENTS[name] for name in names], selection)


def test_a_default_value_does_not_make_another_run():
    plain = planned_run(HOPPER, Variant("capo"), 1, FULL)
    assert plain.name == "Hopper-v4__capo__1M__preset=corrected__1"
    for field, value in (("experts", 4), ("warmup", 0.1), ("carry", "incumbent"), ("clip", 0.2)):
        assert planned_run(HOPPER, Variant("capo", "", ((field, value),)), 1, FULL) == plain
    longer = planned_run(HUMANOID, Variant("ppo"), 2, FULL)
    assert longer.name == "Humanoid-v4__ppo__4M__preset=corrected__2"
    other = planned_run(HOPPER, Variant("capo", "", (("experts", 8),)), 1, FULL)
    assert other.name == "Hopper-v4__capo__1M__preset=corrected__experts=8__1"
    assert planned_run(HOPPER, Variant("capo"), 1, PAPER._replace(preset="paper")).name == (
        "Hopper-v4__capo__1M__preset=paper__1"
    )


def test_experiments_share_runs():
    """PPO with default settings is run once, although several tables need it."""
    everything = runs_named(OF_THE_PAPER, FULL)
    names = [run.name for run in everything]
    assert len(set(names)) == len(names)
    alone = sum(len(runs_named([name], FULL)) for name in OF_THE_PAPER)
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
    trial = runs_named(names, SMOKE)
    assert len(trial) < 20, "all of it is to end in two minutes"
    assert {run.config.algo for run in trial} == {
        run.config.algo for run in runs_named(names, FULL)
    }
    for name in OF_THE_PAPER:
        experiment = EXPERIMENTS[name]
        found = {run.name for run in runs_named([name], SMOKE)}
        assert any(
            "__2.56k__preset=corrected__num_envs=2__num_steps=128__minibatches=2__hidden=8__" in x
            for x in found
        )
        swept = any(variant.changes for variant in experiment.variants)
        assert len(found) > len({run.split("__")[1] for run in found}) or not swept
    asked = SMOKE.narrowed(envs=(HOPPER, ANT))
    assert {run.config.env_id for run in runs_named(["main"], asked)} == {HOPPER, ANT}


def test_an_experiment_can_have_its_own_seeds():
    seeds = {run.config.seed for run in runs_named(["twins"], FULL)}
    assert seeds == {11, 12, 13}
    assert {run.config.seed for run in runs_named(["twins"], PAPER._replace(seeds=2))} == {11, 12}
    trial = {run.config.algo for run in runs_named(["twins"], SMOKE)}
    assert trial == {"ppo", "capo-avg"}, "a trial has the reference and one arm"


def test_the_file_of_a_job_gives_its_configuration(tmp_path):
    names = ["main", "depth", "carry", "attribution", "target-kl", "wider"]
    for selection in (FULL, SMOKE, PAPER._replace(preset="paper", steps=123_456)):
        for run in runs_named(names, selection)[::29]:
            call = parse(Job(run.config, tmp_path / run.name).written())
            assert call.keywords["config"] == run.config.plain(), run.name
            assert call.keywords["run_dir"] == tmp_path / run.name


def test_the_key_of_a_task_with_images_is_that_of_its_run():
    """The observations decide the network, so the task is asked for its space."""
    gym.register("Picture-v0", lambda: Picture(Target()))
    variant = Variant("ppo", "", (("num_steps", 16), ("minibatches", 4)))
    selection = Selection(steps=1000)
    pictures = planned_run("Picture-v0", variant, 1, selection)
    assert (pictures.config.network, planned_run(HOPPER, variant, 1, selection).config.network) == (
        "cnn",
        "mlp",
    )
    assert run_key(Config.from_dict(pictures.config.to_dict())) == pictures.key
