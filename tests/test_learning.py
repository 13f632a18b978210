"""A classic task is solved within its budget."""

import pytest

from capo import Config, evaluate, learn


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "capo"])
def test_cartpole_reaches_450(algo):
    config = Config("CartPole-v1", algo=algo, total_steps=100_000, num_steps=128, seed=1)
    assert evaluate(learn(config), episodes=20).mean >= 450
