"""Atari's games on both backends: the same pictures' shapes, and a short run."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("ale_py", reason="make test-peers installs it")

from capo import PPO, Config
from capo.envs.backends import choose_backend, make
from capo.export.render import open_env

SIZES = {"num_envs": 2, "num_steps": 8, "minibatches": 1, "epochs": 1, "hidden": (8,)}


@pytest.mark.parametrize("env_id", ["Pong-v5", "ALE/Pong-v5"])
@pytest.mark.parametrize("backend", ["envpool", "gymnasium"])
def test_both_names_on_both_backends(env_id, backend):
    env = make(env_id, 2, 0, backend)
    try:
        first = env.reset()
        assert first.shape == (2, 4, 84, 84)
        assert first.dtype == np.uint8
        assert env.action_space == gym.spaces.Discrete(6)
        step = env.step(np.array([2, 3]))
        assert step.obs.shape == first.shape
    finally:
        env.close()


def test_envpool_is_preferred_unless_there_are_arguments():
    assert choose_backend("ALE/Pong-v5", "auto") == "envpool"
    assert choose_backend("ALE/Pong-v5", "auto", dressed=True) == "gymnasium"


@pytest.mark.slow
def test_a_game_is_trained_and_shown():
    model = PPO("auto", "ALE/Pong-v5", backend="gymnasium", **SIZES)
    assert model.config.network == "cnn"
    assert model.learn(16, progress_bar=False).num_timesteps == 16
    env, _ = open_env(Config("Pong-v5"), "rgb_array")
    assert env.render().shape == (210, 160, 3)
    assert env.observation_space == model.observation_space
    env.close()
