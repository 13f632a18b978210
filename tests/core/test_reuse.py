"""Learning from earlier batches: V-trace, importance weights and the clipped objective."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core.advantages import gae
from capo.core.batch import Batch
from capo.core.experts import shares
from capo.core.families import DiagGaussian
from capo.core.ppo import Minibatch, Samples, Share, minibatches, policy_loss
from capo.core.reuse import (
    MAX_IMPORTANCE,
    effective_size,
    importance_weights,
    init_past,
    remember,
    with_newest,
)
from support.policies import random_batch
from support.probes import small

GAMMA, LAMBDA = 0.9, 0.8


def of(rewards):
    """A batch of one environment with these rewards."""
    rewards = np.float32(rewards).reshape(-1, 1)
    obs, no = np.zeros((*rewards.shape, 1), np.float32), np.zeros(rewards.shape, bool)
    return Batch(obs, obs, obs, rewards, no, no)


def test_traces_give_the_advantages_of_vtrace():
    """D_t = c_t δ_t + γλ c_t D_{t+1} corrects the values, and A_t = δ_t + γλ D_{t+1}."""
    rng = np.random.default_rng(0)
    steps = 12
    rewards, values = rng.standard_normal((2, steps, 1))
    last, traces = rng.standard_normal((1, 1)), rng.uniform(0.2, 1.0, (steps, 1))
    following = np.concatenate([values[1:], last])
    terminated = np.zeros((steps, 1), bool)
    terminated[5] = True
    ends = (terminated, np.zeros_like(terminated))
    data = tuple(map(jnp.asarray, (rewards, values, following, *ends)))
    found = gae(*data, GAMMA, LAMBDA, jnp.asarray(traces))
    correction, expected = 0.0, np.zeros(steps)
    for t in reversed(range(steps)):
        alive = 1.0 - terminated[t, 0]
        delta = rewards[t, 0] + GAMMA * alive * following[t, 0] - values[t, 0]
        expected[t] = delta + GAMMA * LAMBDA * alive * correction
        trace = traces[t, 0]
        correction = trace * delta + GAMMA * LAMBDA * trace * alive * correction
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)  # float32
    plain = gae(*data, GAMMA, LAMBDA)
    np.testing.assert_array_equal(gae(*data, GAMMA, LAMBDA, jnp.ones((steps, 1))), plain)


def test_the_past_holds_the_latest_batches_first():
    past = init_past(of([0]), 2)
    seen = []
    for number in (1.0, 2.0, 3.0, 4.0):
        batches = with_newest(past, of([number]))
        log_prob = jnp.full((3, 1, 1), -number)
        _, behaviour = importance_weights(past, log_prob)
        seen.append((batches.rewards.ravel().tolist(), behaviour.ravel().tolist()))
        past = remember(past, batches, behaviour)
    assert seen == [
        ([1, 1, 1], [-1, -1, -1]),
        ([2, 1, 1], [-2, -1, -1]),
        ([3, 2, 1], [-3, -2, -1]),
        ([4, 3, 2], [-4, -3, -2]),
    ]


def test_importance_is_the_ratio_of_the_policies():
    past = init_past(of([0, 0]), 1)
    past = past._replace(log_prob=jnp.array([[[-1.0], [-9.0]]]), stored=jnp.int32(3))
    weights, _ = importance_weights(past, jnp.array([[[-5.0], [-6.0]], [[-1.5], [-2.0]]]))
    np.testing.assert_allclose(weights.ravel(), [1, 1, np.exp(-0.5), MAX_IMPORTANCE], rtol=1e-6)


def test_the_effective_size_is_the_share_of_equal_weights():
    """Weights on m of n samples alone have the size m/n."""
    sizes = effective_size(jnp.array([[2.0, 2.0, 2.0, 2.0], [3.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(sizes, [1.0, 0.25], rtol=1e-6)


def test_the_ratio_is_clipped_around_the_incumbents():
    """mean min(ρ A, clip(ρ, w − ε, w + ε) A) with ρ = π/π_b, w = π_t/π_b, written out."""
    policy, samples, advantages = random_batch(DiagGaussian(2))
    config = small(advantage_norm="none", clip=0.2)
    n = len(advantages)
    rng = np.random.default_rng(1)
    incumbent = samples.log_prob + 0.3 * rng.standard_normal(n).astype(np.float32)
    importance = jnp.exp(jnp.asarray(rng.standard_normal(n), jnp.float32))
    pool = Samples(*samples[:2], samples.dist, incumbent, importance)
    share = Share(jnp.arange(n).reshape(1, 1, -1), advantages, importance)
    batch = jax.tree.map(lambda x: x[0], minibatches(pool, share, share.indices[0], config))
    assert isinstance(batch, Minibatch)
    loss, info = policy_loss(policy, samples.obs, batch, jnp.float32(0), config)
    now = policy.family.log_prob(policy(samples.obs), samples.actions)
    ratio = np.exp(now - incumbent) * importance
    clipped = np.clip(ratio, importance - 0.2, importance + 0.2)
    expected = np.mean(np.minimum(ratio * advantages, clipped * advantages))
    assert -float(loss) == pytest.approx(expected, rel=1e-4)
    outside = np.mean(np.abs(ratio - importance) > 0.2)
    assert 0 < outside < 1
    assert float(info["clipfrac"]) == pytest.approx(outside)


def test_batches_gives_each_expert_its_own():
    config = small(diversity="batches", experts=2, minibatches=1)
    importance = jnp.concatenate([jnp.ones(4), jnp.array([2.0, 1.0, 1.0, 1.0])])
    sizes = jnp.array([1.0, 0.5])
    advantages = jnp.broadcast_to(jnp.arange(8.0), (2, 8))
    found = shares(jax.random.key(0), advantages, 3, config, sizes, importance)
    assert found.indices.shape == (2, 3, 1, 4)
    for expert, rows in enumerate(np.asarray(found.indices).reshape(2, 3, 4)):
        np.testing.assert_array_equal(np.sort(rows), [np.arange(4) + 4 * expert] * 3)
    np.testing.assert_array_equal(found.weights[0], importance)
    pooled = shares(
        jax.random.key(0), advantages[:1], 3, small(reuse=2, minibatches=1), sizes, importance
    )
    np.testing.assert_allclose(pooled.weights[0], importance * np.repeat([4 / 3, 2 / 3], 4))
