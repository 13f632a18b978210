"""Every method learns environments with known optimal actions."""

import dataclasses
import functools

import gymnasium as gym
import jax
import numpy as np
import pytest

from capo import Config, evaluate
from capo.core import consensus
from capo.methods import METHODS
from capo.train import learn
from support.probes import (
    ALGOS,
    ActionReward,
    AllActions,
    ConstantReward,
    DelayedReward,
    ObservedReward,
    Target,
    but_slow,
    small,
    vector,
)


def trained(factory, algo, **changes):
    return learn(small(algo, **changes), vector(factory))


def chance(model, obs):
    return np.asarray(jax.nn.softmax(model.policy(np.array([obs], np.float32))))


@pytest.mark.parametrize("algo", but_slow(ALGOS, "ppo"))
def test_probes_with_two_actions(algo):
    model = trained(ConstantReward, algo)
    assert model.critic(np.zeros(1, np.float32)) == pytest.approx(1, abs=0.05)

    model = trained(ObservedReward, algo)
    for obs in (-1, 1):
        assert model.critic(np.array([obs], np.float32)) == pytest.approx(obs, abs=0.1)

    model = trained(ActionReward, algo)
    assert chance(model, 0)[1] > 0.9

    model = trained(DelayedReward, algo)
    assert chance(model, 0)[1] > 0.9
    after = model.critic(np.array([0.0], np.float32))
    assert after == pytest.approx(0.9, abs=0.15), "one discounted step before the reward of 1"


@pytest.mark.parametrize("algo", but_slow(ALGOS, "ppo"))
def test_a_continuous_target(algo):
    model = trained(Target, algo)
    for obs in (-1, 1):
        assert model.act(np.array([obs], np.float32))[0] == pytest.approx(obs / 2, abs=0.15)


@pytest.mark.parametrize("algo", ["ppo", "capo"])
@pytest.mark.parametrize(
    "space", [gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(3)], ids=str
)
@pytest.mark.slow
def test_composite_actions(algo, space):
    model = trained(functools.partial(AllActions, space), algo)
    np.testing.assert_array_equal(model.act(np.zeros(1, np.float32)), np.ones(space.shape))


@pytest.mark.slow
def test_a_state_dependent_standard_deviation():
    model = trained(Target, "capo", state_dependent_std=True)
    assert model.act(np.array([1.0], np.float32))[0] == pytest.approx(0.5, abs=0.15)


def test_a_replaced_method_is_used(monkeypatch):
    """The compiled program depends on the method itself, not on its name."""
    config = small("mine", experts=2, warmup=0.0, total_steps=small().batch_size)
    row = dataclasses.replace(METHODS["capo-avg"], aggregate=consensus.average)
    monkeypatch.setitem(METHODS, "mine", row)
    averaged = learn(config, vector(ActionReward)).policy
    monkeypatch.setitem(METHODS, "mine", dataclasses.replace(row, aggregate=consensus.best))
    best = learn(config, vector(ActionReward)).policy
    assert not all(map(np.array_equal, jax.tree.leaves(averaged), jax.tree.leaves(best)))


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "capo"])
def test_cartpole_reaches_450(algo):
    config = Config("CartPole-v1", algo=algo, total_steps=100_000, num_steps=128, seed=1)
    assert evaluate(learn(config), episodes=20).mean >= 450
