"""TRPO's step: its KL, its direction, and the surrogate."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from capo.core.fisher import fisher_operator
from capo.core.ppo import Share
from capo.core.trpo import trpo_update
from capo.methods import settle
from support.policies import BATCH_SIZE, FAMILIES, plain_rates, random_batch
from support.probes import but_slow, small


def step(family, delta, advantages=None, **changes):
    config = settle(small("trpo", trpo_delta=delta, **changes))
    policy, samples, random = random_batch(family)
    advantages = random if advantages is None else advantages
    share = Share(jnp.zeros((1, 1, 1), jnp.int32), advantages, jnp.ones(BATCH_SIZE))
    run = jax.jit(functools.partial(trpo_update, config=config))
    return policy, samples, advantages, run(policy, (), samples, share, plain_rates())


each_family = pytest.mark.parametrize(
    "family", but_slow(FAMILIES, FAMILIES[0]), ids=lambda f: type(f).__name__
)


@each_family
def test_the_step_has_the_kl_of_the_trust_region(family):
    """A full step has ½ ΔᵀFΔ = δ; its exact KL is near δ for a small one, and never above."""
    policy, samples, _, expert = step(family, 1e-3, trpo_damping=1e-3)
    kl = float(jnp.mean(family.kl(samples.dist, expert.policy(samples.obs))))
    assert expert.info["epochs_run"] == 1
    assert kl <= 1e-3 * (1 + 1e-4)
    move = ravel_pytree(expert.policy)[0] - ravel_pytree(policy)[0]
    _, product = fisher_operator(policy, samples.obs)
    # At most three backtracks by 0.8 may be needed where the quadratic model is a little off.
    assert 1e-3 * 0.8**6 * 0.9 <= float(0.5 * move @ product(move)) <= 1e-3 * 1.001


@each_family
def test_the_surrogate_rises(family):
    policy, samples, advantages, expert = step(family, 1e-3)
    gains = (advantages - advantages.mean()) / advantages.std()

    def surrogate(p):
        log_ratio = family.log_prob(p(samples.obs), samples.actions) - samples.log_prob
        return float(jnp.mean(jnp.exp(log_ratio) * gains))

    assert surrogate(expert.policy) > surrogate(policy) + 1e-3


@each_family
def test_the_direction_is_the_natural_gradient(family):
    policy, samples, advantages, expert = step(family, 1e-5, trpo_damping=1e-2, trpo_cg_iters=200)
    gains = (advantages - advantages.mean()) / advantages.std()

    def surrogate(p):
        log_ratio = family.log_prob(p(samples.obs), samples.actions) - samples.log_prob
        return jnp.mean(jnp.exp(log_ratio) * gains)

    gradient = ravel_pytree(jax.grad(surrogate)(policy))[0]
    flat, product = fisher_operator(policy, samples.obs)
    matrix = np.asarray(jax.jit(jax.vmap(product))(jnp.eye(flat.size))) + 1e-2 * np.eye(flat.size)
    exact = np.linalg.solve(matrix.astype(float), np.asarray(gradient, float))
    move = np.asarray(ravel_pytree(expert.policy)[0] - flat, float)
    cosine = move @ exact / np.linalg.norm(move) / np.linalg.norm(exact)
    assert cosine > 0.999


def test_without_a_direction_the_incumbent_stays():
    policy, _, _, expert = step(FAMILIES[0], 1e-2, advantages=jnp.zeros(BATCH_SIZE))
    np.testing.assert_array_equal(ravel_pytree(expert.policy)[0], ravel_pytree(policy)[0])
    assert expert.info["epochs_run"] == 0
