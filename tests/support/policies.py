"""Action families, small random policies, sets of experts and batches of actions."""

import itertools

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo import Config
from capo.core.consensus import Experts
from capo.core.encoding import Encoder
from capo.core.families import Bernoulli, Categorical, DiagGaussian, MultiCategorical
from capo.core.family import Family
from capo.core.networks import Policy, init_policy
from capo.core.ppo import Rates, Samples
from capo.methods import settle
from capo.state import first_generation

FAMILIES = [DiagGaussian(3), Categorical(4), MultiCategorical((2, 3)), Bernoulli(3)]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
OBS = jax.random.normal(jax.random.key(9), (32, 3))
"""The observations on which `make_experts` evaluates its policies."""
BATCH_SIZE = 64
"""Samples in `random_batch`."""


def blank_model(config, observation_space, action_space):
    """An untrained model."""
    config = settle(config, observation_space)
    return first_generation(config, observation_space, action_space).model


def random_dist(family, rng, shape=(), scale=1.0):
    """Random parameters of the family's distribution, of the given batch shape."""
    return jnp.asarray(scale * rng.standard_normal((*shape, family.size)))


def every_action(family):
    """All actions of a discrete family."""
    match family:
        case Categorical(n):
            return jnp.arange(n)
        case MultiCategorical(nvec):
            return jnp.array(list(itertools.product(*map(range, nvec))))
        case Bernoulli(n):
            return jnp.array(list(itertools.product((0, 1), repeat=n)))


def fresh_policy(seed, size: int, family: Family, hidden, state_dependent_std=False) -> Policy:
    """An untrained policy for observations of `size` numbers."""
    encoder = Encoder(gym.spaces.Box(-1, 1, (size,)), image=False)
    changes = {"activation": "tanh", "state_dependent_std": state_dependent_std}
    config = Config("probe", hidden=hidden, **changes)
    return init_policy(jax.random.key(seed), encoder, family, config)


def stack(trees):
    """One tree of arrays with a leading axis over the trees."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def make_experts(family, width, distinct=True, state_std=False) -> Experts:
    """Random policies near one another; with `distinct=False` they are all the same."""
    policy = fresh_policy(0, 3, family, (8,), state_std)

    def moved(k):
        noise = jax.tree.map(
            lambda x: 0.1 * jax.random.normal(jax.random.key(k + 1), x.shape), policy
        )
        return jax.tree.map(jnp.add, policy, noise)

    policies = stack([moved(k if distinct else 0) for k in range(width)])
    dist = jax.vmap(lambda p: p(OBS))(policies)
    surrogate = jnp.arange(width, dtype=jnp.float32) if distinct else jnp.zeros(width)
    return Experts(policies, (), policies, dist, surrogate)


def plain_rates(learning_rate=0.0):
    """A learning rate without an entropy bonus."""
    return Rates(jnp.float32(learning_rate), jnp.float32(0))


def random_batch(family=None, seed=0):
    """A small policy, a batch of its actions, and a random advantage for each."""
    family = family or DiagGaussian(2)
    policy = fresh_policy(seed, 3, family, (8,))
    rng = np.random.default_rng(seed)
    obs = jnp.asarray(rng.standard_normal((BATCH_SIZE, 3)), jnp.float32)
    dist = policy(obs)
    actions = jnp.asarray(family.sample(np.asarray(dist), family.draw(rng, (BATCH_SIZE,))))
    samples = Samples(obs, actions, dist, family.log_prob(dist, actions))
    return policy, samples, jnp.asarray(rng.standard_normal(BATCH_SIZE), jnp.float32)
