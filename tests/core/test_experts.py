"""How the experts differ, and that they are the same on one device and on several."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core.advantages import gae_lambdas
from capo.core.experts import permutations, shares, train_experts
from capo.core.families import Categorical, DiagGaussian
from capo.core.optimizer import optimizer
from capo.core.ppo import Rates, Share, ppo_update
from capo.core.trpo import trpo_update
from capo.methods import settle
from support.policies import BATCH_SIZE as N
from support.policies import plain_rates, random_batch
from support.probes import but_slow, small


def make_shares(width, config, depth=4, seed=0, advantages=None):
    found = jnp.arange(N, dtype=jnp.float32) if advantages is None else advantages
    return shares(jax.random.key(seed), jnp.broadcast_to(found, (width, N)), depth, config)


@pytest.mark.parametrize("n", [1, 2, 7, 4096, 70_000])
def test_permutations_are_permutations(n):
    found = np.asarray(permutations(jax.random.key(0), 3, n))
    np.testing.assert_array_equal(np.sort(found, axis=1), np.broadcast_to(np.arange(n), (3, n)))
    if n > 7:
        assert not (found[0] == found[1]).all()


def test_permutations_are_uniform():
    """Over 6000 shuffles of 4, each element is in each position 1500 ± 5σ times."""
    found = np.asarray(permutations(jax.random.key(1), 6000, 4))
    counts = np.stack([(found == value).sum(axis=0) for value in range(4)])
    assert np.abs(counts - 1500).max() < 5 * np.sqrt(6000 * 0.25 * 0.75)


def test_shuffled_experts_see_every_sample_once_an_epoch():
    share = make_shares(3, small(experts=3))
    assert share.indices.shape == (3, 4, 4, 16)
    epochs = np.sort(np.asarray(share.indices).reshape(3, 4, N), axis=-1)
    np.testing.assert_array_equal(epochs, np.broadcast_to(np.arange(N), (3, 4, N)))
    assert len({share.indices[k].tobytes() for k in range(3)}) == 3
    np.testing.assert_array_equal(share.weights, 1)


def test_the_first_expert_does_not_depend_on_how_many_there_are():
    one, four = make_shares(1, small(experts=1)), make_shares(4, small())
    np.testing.assert_array_equal(one.indices[0], four.indices[0])


def test_bootstrap_weights_have_mean_one_and_exponential_spread():
    config = small(diversity="bootstrap", experts=500)
    weights = np.asarray(make_shares(500, config, depth=1).weights)
    np.testing.assert_allclose(weights.mean(axis=1), 1, rtol=1e-5)
    # Dirichlet(1, …, 1) scaled to mean 1 has variance (N − 1)/(N + 1); 5 standard errors.
    expected, error = (N - 1) / (N + 1), 5 * np.sqrt(8 / weights.size)
    assert abs(weights.var() - expected) < error


def test_trpo_experts_differ_by_a_bootstrap():
    weights = make_shares(2, small(base_optimizer="trpo")).weights
    assert not np.allclose(weights[0], weights[1])
    np.testing.assert_array_equal(make_shares(1, small(base_optimizer="trpo")).weights, 1)


def test_gae_lambdas_spread_around_the_configured_one():
    np.testing.assert_allclose(gae_lambdas(0.95, 1), [0.95], rtol=1e-6)
    np.testing.assert_allclose(gae_lambdas(0.95, 3), [0.90, 0.95, 0.975], rtol=1e-6)


@pytest.mark.parametrize("rule", but_slow([ppo_update, trpo_update], ppo_update))
@pytest.mark.parametrize("family", but_slow([DiagGaussian(2), Categorical(3)], DiagGaussian(2)))
def test_sharded_experts_equal_mapped_ones(rule, family):
    assert jax.device_count() == 3
    config = settle(small("capo", experts=4))
    policy, samples, advantages = random_batch(family)
    share = make_shares(4, config, advantages=advantages)
    opt_state = optimizer(config).init(policy)

    def run(devices):
        call = jax.jit(functools.partial(train_experts, rule, devices=devices))
        return call(policy, opt_state, samples, share, plain_rates(1e-3), config.for_policy)

    for one, two in zip(jax.tree.leaves(run(1)), jax.tree.leaves(run(2)), strict=True):
        # Two experts in a matrix product round differently from four.
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)


def one_expert(config, seed=0):
    policy, samples, advantages = random_batch()
    share = jax.tree.map(lambda x: x[0], make_shares(1, config, seed=seed, advantages=advantages))
    opt_state = optimizer(config).init(policy)
    run = jax.jit(functools.partial(ppo_update, config=config))
    return policy, samples, run(policy, opt_state, samples, share, plain_rates(1e-2))


def test_target_kl_stops_an_expert():
    free = one_expert(settle(small()))
    policy, samples, stopped = one_expert(settle(small(target_kl=1e-4)))
    assert free[2].info["epochs_run"] == 4
    assert stopped.info["epochs_run"] == 1
    kl = [
        float(jnp.mean(policy.family.kl(samples.dist, p(samples.obs))))
        for p in (stopped.policy, free[2].policy)
    ]
    assert 1e-4 < kl[0] < kl[1]


def test_the_mean_iterate_is_the_mean_of_epoch_ends():
    full = one_expert(settle(small()))[2]
    first = one_expert(settle(small(target_kl=1e-12)))[2]
    np.testing.assert_array_equal(first.mean_iterate.log_std, first.policy.log_std)
    assert not np.allclose(full.mean_iterate.log_std, full.policy.log_std)
    spread = [full.policy.log_std, first.policy.log_std, full.mean_iterate.log_std]
    low, high = np.minimum(*spread[:2]), np.maximum(*spread[:2])
    assert np.all((low - 0.05 <= spread[2]) & (spread[2] <= high + 0.05))


def test_one_step_of_ppo_by_hand():
    """One epoch of one minibatch is one Adam step, lr · sign(g) at first, on the clipped loss."""
    config = settle(small(epochs=1, minibatches=1, max_grad_norm=1e9, adam_eps=1e-12))
    policy, samples, advantages = random_batch()
    share = Share(jnp.arange(N).reshape(1, 1, N), advantages, jnp.ones(N))
    found = ppo_update(
        policy, optimizer(config).init(policy), samples, share, plain_rates(0.01), config
    )

    def loss(p):
        gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return -jnp.mean(jnp.exp(p.family.log_prob(p(samples.obs), samples.actions)
                                 - samples.log_prob) * gain)  # fmt: skip

    slope = jax.grad(loss)(policy)
    expected = policy.log_std - 0.01 * jnp.sign(slope.log_std)
    np.testing.assert_allclose(found.policy.log_std, expected, rtol=1e-4)


def test_the_bonus_raises_the_entropy_of_every_sample_alike():
    """Without advantages the gradient is the bonus alone: Adam's first step in log σ is +lr."""
    config = settle(small(epochs=1, minibatches=1, max_grad_norm=1e9, adam_eps=1e-12))
    policy, samples, _ = random_batch()
    share = Share(jnp.arange(N).reshape(1, 1, N), jnp.zeros(N), jnp.ones(N))
    rates = Rates(jnp.float32(0.01), jnp.float32(0.5))
    found = ppo_update(policy, optimizer(config).init(policy), samples, share, rates, config)
    np.testing.assert_allclose(found.policy.log_std, policy.log_std + 0.01, rtol=1e-4)
