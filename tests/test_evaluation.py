"""Evaluation counts whole episodes, without a bias to short ones."""

import math

import gymnasium as gym
import numpy as np
import pytest

from capo import Evaluation, evaluate
from capo.evaluation import play
from support.policies import blank_model
from support.probes import Probe, small, vector


class Uneven(Probe):
    """Episodes of 1 step with an even seed, otherwise of 10; every step has reward 1."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.length = 1 if seed % 2 == 0 else 10
        return super().reset(seed=seed)


def test_each_environment_plays_equally_many_episodes():
    """The first ten episodes to end would be almost only short ones."""
    model = blank_model(small("ppo"), Probe.observation_space, Probe.action_space)
    result = play(model, vector(Uneven), 10, True, np.random.default_rng(0))
    assert sorted(result.lengths) == [1] * 5 + [10] * 5 or sorted(result.lengths) == (
        [1] * 6 + [10] * 4
    )
    assert result.returns == [float(n) for n in result.lengths]


def test_standard_error_by_hand():
    result = Evaluation([1.0, 2.0, 3.0], [5, 6, 7])
    assert result.mean == 2.0
    assert result.standard_error == pytest.approx(1 / math.sqrt(3))
    assert result.to_dict()["mean_length"] == 6
    assert Evaluation([1.0], [1]).to_dict()["standard_error"] is None


def test_the_same_seed_gives_the_same_episodes():
    env = gym.make("CartPole-v1")
    config = small("ppo").replace(env_id="CartPole-v1")
    model = blank_model(config, env.observation_space, env.action_space)
    one, two, other = (evaluate(model, 5, seed) for seed in (1, 1, 2))
    assert one == two
    assert one != other
    assert len(one.returns) == 5


class Endless(Probe):
    """Every step has reward 1, and no episode ends."""

    length = 10**9


def test_an_episode_that_does_not_end_is_cut():
    model = blank_model(small("ppo"), Probe.observation_space, Probe.action_space)
    result = evaluate(model, 5, env=vector(Endless), max_steps=7)
    assert result == Evaluation(returns=[7.0] * 5, lengths=[7] * 5, cut=5)
    assert result.describe().endswith("over 5 episodes, length 7 (5 cut, which had not ended)")
    assert evaluate(model, 5, env=vector(Uneven), max_steps=10).cut == 0
