"""The value fit: one critic, and the mean of several on bootstrap resamples."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core.critic import critic_minibatches, fit_critic, init_critic_optimizer
from capo.core.networks import Critic, Ensemble
from capo.core.optimizer import init_optimizer
from capo.model import Model, blank_model, init_networks
from support.equality import same
from support.probes import small

N, K = 64, 3
SPACES = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(2)
KEY = jax.random.key(0)
RATE = jnp.float32(1e-2)


@pytest.fixture(scope="module")
def batch():
    obs = jax.random.normal(KEY, (N, 2))
    return obs, jnp.sin(3 * obs[:, 0])


def several():
    """The configuration and the critic."""
    config = small(critic_experts=K, clip=10.0)
    return config, init_networks(config, *SPACES)[1]


def picked(tree, k):
    return jax.tree.map(lambda x: x[k], tree)


def members(critic):
    """The critics of an ensemble, one by one."""
    assert isinstance(critic.net, Ensemble)
    return [Critic(picked(critic.net.each, k)) for k in range(K)]


def test_the_value_is_the_mean_of_the_critics(batch):
    _, critic = several()
    each = np.stack([one(batch[0]) for one in members(critic)])
    assert (each.std(axis=0) > 1e-3).all(), "each has its own initialisation"
    np.testing.assert_allclose(critic(batch[0]), each.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(critic(np.asarray(batch[0])), each.mean(axis=0), atol=1e-6)


def test_the_policy_does_not_depend_on_the_number_of_critics():
    one, more = (init_networks(small(critic_experts=k), *SPACES)[0] for k in (1, K))
    assert same(one, more)


def test_each_critic_has_a_resample_and_shuffles_of_its_own():
    config = small(critic_experts=K, critic_epochs=4)
    rows = np.asarray(critic_minibatches(KEY, N, config)).reshape(K, 4, N)
    for own in rows:
        epochs = np.sort(own, axis=1)
        assert (epochs == epochs[0]).all(), "every epoch has the same samples"
        assert (own[0] != own[1]).any(), "in another order"
        # A sample is missing with probability (1 − 1/N)^N ≈ 0.37.
        assert 0.5 < len(np.unique(own)) / N < 0.8
    assert (np.sort(rows[0, 0]) != np.sort(rows[1, 0])).any()


def test_one_critic_sees_every_sample_in_every_epoch():
    config = small(critic_epochs=4)
    rows = np.asarray(critic_minibatches(KEY, N, config)).reshape(4, N)
    assert (np.sort(rows, axis=1) == np.arange(N)).all()


def test_the_critics_are_fitted_as_each_would_be_alone(batch):
    config, critic = several()
    rows = critic_minibatches(KEY, N, config)
    moments = init_critic_optimizer(config, critic)
    found, after, error = fit_critic(critic, moments, *batch, rows, RATE, config)
    errors = []
    for k, one in enumerate(members(critic)):
        start = init_optimizer(config, one)
        alone, alone_after, alone_error = fit_critic(one, start, *batch, rows[k], RATE, config)
        errors.append(alone_error)
        ends = ((members(found)[k], picked(after, k)), (alone, alone_after))
        for a, b in zip(*map(jax.tree.leaves, ends), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert error == pytest.approx(np.mean(errors), abs=1e-5)


def test_the_mean_is_no_worse_than_the_critics_are_on_average(batch):
    """Jensen: (V̄ − R)² ≤ (1/K) Σ (V_k − R)²."""
    config, critic = several()
    moments = init_critic_optimizer(config, critic)
    rows = critic_minibatches(KEY, N, config.replace(critic_epochs=50))
    found, *_ = fit_critic(critic, moments, *batch, rows, RATE, config)
    obs, targets = batch

    def mse(critic):
        return float(np.mean((critic(obs) - targets) ** 2))

    assert mse(found) < np.mean([mse(one) for one in members(found)])
    assert mse(found) < 0.8 * mse(critic)


def test_a_saved_model_has_all_critics(tmp_path):
    model = blank_model(small(critic_experts=K), *SPACES)
    model.save(tmp_path / "model.safetensors")
    assert same(Model.load(tmp_path / "model.safetensors").critic, model.critic)
    assert len(members(model.critic)) == K
