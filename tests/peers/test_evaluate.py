"""Stable-Baselines3's `evaluate_policy` with models of capo."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="make test-peers installs it")

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from capo import CAPO, PPO

SIZES = {"num_envs": 4, "num_steps": 32, "minibatches": 4, "epochs": 2, "diagnostics": 0}


class Parts(gym.ObservationWrapper):
    """CartPole with the cart and the pole as parts of a Dict."""

    def __init__(self, env):
        super().__init__(env)
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"cart": box, "pole": box})

    def observation(self, obs):
        return {"cart": obs[:2], "pole": obs[2:]}


def own_returns(model, factory, episodes):
    """The same episodes, played by hand."""
    env, found = factory(), []
    obs, _ = env.reset(seed=7)
    for _ in range(episodes):
        total, done, state = 0.0, False, None
        while not done:
            action, state = model.predict(obs, state, deterministic=True)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, done = total + reward, terminated or truncated
        found.append(total)
        obs, _ = env.reset()
    return found


def whole():
    return gym.make("CartPole-v1")


@pytest.mark.parametrize(
    ("factory", "frames"), [(whole, 1), (whole, 3), (lambda: Parts(whole()), 1)],
    ids=["box", "frames", "dict"],
)  # fmt: skip
def test_evaluate_policy_plays_what_predict_plays(factory, frames):
    model = PPO("MlpPolicy", factory, hidden=(16,), seed=1, frame_stack=frames, **SIZES)
    model.learn(1024, progress_bar=False)
    env = make_vec_env(factory, n_envs=1, seed=7)
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=5, return_episode_rewards=True)
    assert returns == lengths == own_returns(model, factory, 5)


def test_evaluate_policy_with_a_plain_environment_and_several_at_once():
    model = CAPO("MlpPolicy", "Pendulum-v1", experts=2, hidden=(16,), **SIZES)
    model.learn(256, progress_bar=False)
    mean, _ = evaluate_policy(model, Monitor(gym.make("Pendulum-v1")), n_eval_episodes=2)
    assert -2000 < mean < 0
    mean, _ = evaluate_policy(
        model, make_vec_env("Pendulum-v1", n_envs=3), n_eval_episodes=4, deterministic=False
    )
    assert -2000 < mean < 0
