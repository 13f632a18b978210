"""Environments with known values and best actions, and a small configuration to learn them."""

import gymnasium as gym
import numpy as np
import pytest

from capo import Config
from capo.envs.gymnasium import GymnasiumEnv

ALGOS = ("ppo", "ppo-kx", "ppo-swa", "best-of-k", "trpo", "capo-avg", "capo")
BIT = gym.spaces.Discrete(2)


class Probe(gym.Env):
    """Episodes of `length` steps; subclasses define observations and rewards."""

    length = 1
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = BIT

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.actions = 0, []
        self.obs = self.see()
        return self.obs, {}

    def step(self, action):
        self.actions.append(action)
        reward = self.pay()
        self.t += 1
        self.obs = self.see()
        return self.obs, reward, self.t == self.length, False, {}

    def see(self):
        return np.zeros(1, np.float32)

    def pay(self):
        return 1.0


class ConstantReward(Probe):
    """Every reward is 1, so V = 1."""


class ObservedReward(Probe):
    """The reward is the observation, so V(s) = s."""

    def see(self):
        return self.np_random.choice([-1.0, 1.0], 1).astype(np.float32)

    def pay(self):
        return float(self.obs[0])


class ActionReward(Probe):
    """Rewards action 1."""

    def pay(self):
        return float(np.ravel(self.actions[-1])[0] == 1)


class DelayedReward(Probe):
    """The second step rewards action 1 in the first."""

    length = 2

    def see(self):
        return np.full(1, self.t, np.float32)

    def pay(self):
        return float(self.t == 1 and self.actions[0] == 1)


class Target(Probe):
    """The reward is −(a − s/2)² for a continuous action: the best mean is half the observation."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def see(self):
        return self.np_random.choice([-1.0, 1.0], 1).astype(np.float32)

    def pay(self):
        return -float((self.actions[-1][0] - self.obs[0] / 2) ** 2)


class AllActions(Probe):
    """The reward is the share of the parts of a composite action that are 1."""

    def __init__(self, action_space):
        self.action_space = action_space

    def pay(self):
        return float(np.mean(np.equal(self.actions[-1], 1)))


def small(algo="ppo", **changes) -> Config:
    """A configuration that takes a few hundredths of a second a generation."""
    fields = {
        "preset": "corrected",
        "total_steps": 64 * 100,
        "num_envs": 4,
        "num_steps": 16,
        "minibatches": 4,
        "epochs": 4,
        "gamma": 0.9,
        "learning_rate": 1e-2,
        "hidden": (16,),
        "experts": 2,
        "normalize_obs": False,
        "normalize_reward": False,
        "trpo_delta": 0.05,
        "delta": 0.1,
        "diagnostics": 0,
        "warmup": 0.0,
    }
    return Config("probe", algo=algo, **{**fields, **changes})


def vector(factory, num_envs=4, seed=0) -> GymnasiumEnv:
    return GymnasiumEnv(factory, num_envs, seed, name="probe")


def but_slow(values, *quick) -> list:
    """Parameters of a test; all but the quick ones are marked slow (`make test-slow`)."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]
