"""Which tasks a worker process can make, and the number of workers."""

import contextlib

import gymnasium as gym
import numpy as np
import pytest

from capo import PPO, EnvError, UsageError
from capo.envs.backends import make
from capo.envs.processes.recipe import recipe_of, workers_for
from capo.envs.processes.vector import ProcessEnv
from capo.envs.registry import import_module_of
from support.worker_tasks import Fault

FAULT, PARTS = "support.worker_tasks:Fault-v0", "support.worker_tasks:Parts-v0"
import_module_of(FAULT)


@pytest.mark.parametrize(
    ("entry", "kwargs", "why"),
    [
        (lambda: Fault(), {}, "cannot be imported by name"),
        ("__main__:Fault", {}, "it is defined in the script"),
        (Fault, {"at": (1, 2)}, "its arguments are not JSON"),
        (Fault, {"at": {1, 2}}, "not JSON serializable"),
        (Fault, {"at": np.nan}, "its arguments are not JSON"),
    ],
)
def test_tasks_that_a_worker_cannot_make_are_refused(entry, kwargs, why):
    for registered, given in ((kwargs, {}), ({}, kwargs)):
        gym.register("Local-v0", entry, kwargs=registered)
        try:
            with pytest.raises(UsageError, match=f"^Local-v0 cannot be made .*{why}.* workers"):
                make("Local-v0", 2, 0, "gymnasium", 1, **given)
        finally:
            del gym.registry["Local-v0"]
    assert recipe_of(PARTS, {"a": [1, None]})["kwargs"] == {"a": [1, None]}


def test_observations_of_no_fixed_size_are_refused():
    gym.register("Text-v0", "support.worker_tasks:Text")
    try:
        with pytest.raises(UsageError, match=r"Text-v0: Text.* has no fixed size, so workers"):
            make("Text-v0", 2, 0, "gymnasium", 1)
    finally:
        del gym.registry["Text-v0"]


def test_a_task_that_only_this_process_can_make_is_named(monkeypatch):
    gym.register("Local-v0", "support.worker_tasks:Local")
    monkeypatch.setattr("support.worker_tasks.Local", Fault, raising=False)
    try:
        with contextlib.closing(make("Local-v0", 4, 0, "gymnasium", 1)) as env:
            said = r"^Local-v0 cannot be made in another process: AttributeError: .*without workers"
            with pytest.raises(EnvError, match=said):
                env.reset()
    finally:
        del gym.registry["Local-v0"]


def test_mujoco_tasks_have_a_worker_for_each_other_core(monkeypatch):
    monkeypatch.setattr("capo.envs.processes.recipe.available_cores", lambda: 4)
    tasks = ("Hopper-v4", "Humanoid-v5", "CartPole-v1", FAULT)
    assert [workers_for(task, None, 8) for task in tasks] == [3, 3, 0, 0]
    assert [workers_for("Hopper-v4", None, envs) for envs in (1, 2, 3)] == [0, 1, 2]
    assert workers_for("CartPole-v1", 2, 8) == 2
    assert workers_for("Hopper-v4", None, 8, {"healthy_z_range": (0.7, 2.0)}) == 0
    monkeypatch.setattr("capo.envs.processes.recipe.available_cores", lambda: 1)
    assert workers_for("Hopper-v4", None, 8) == 0


def test_the_classes_take_workers_for_an_id_only():
    with pytest.raises(UsageError, match="so env must be an id"):
        PPO("MlpPolicy", lambda: gym.make("CartPole-v1"), workers=1)
    model = PPO("MlpPolicy", "CartPole-v1", workers=1, backend="gymnasium", num_envs=2)
    assert isinstance(model._learner.env, ProcessEnv)
    assert len(model.evaluate(episodes=2).returns) == 2
