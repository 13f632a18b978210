"""The value fit."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core.critic import critic_minibatches
from support.probes import small

N, K = 64, 3
SPACES = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(2)
KEY = jax.random.key(0)
RATE = jnp.float32(1e-2)


@pytest.fixture(scope="module")
def batch():
    obs = jax.random.normal(KEY, (N, 2))
    return obs, jnp.sin(3 * obs[:, 0])


def test_one_critic_sees_every_sample_in_every_epoch():
    config = small(epochs=4)
    rows = np.asarray(critic_minibatches(KEY, N, config)).reshape(4, N)
    assert (np.sort(rows, axis=1) == np.arange(N)).all()
