"""Aggregation: identities that hold exactly, and symmetries."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core import consensus
from capo.core.consensus import Experts
from capo.core.families import DiagGaussian
from capo.core.networks import MLP, Policy
from support.equality import same
from support.policies import OBS, each_family, make_experts, stack

AGGREGATES = [consensus.average, consensus.logop, consensus.best]


@each_family
@pytest.mark.parametrize("width", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_identical_experts_give_themselves(aggregate, width, family):
    experts = make_experts(family, width, distinct=False)
    policy, dist = aggregate(experts)
    assert same(policy, consensus.tree_pick(experts.policy, 0)), "bit for bit"
    if dist is not None:
        np.testing.assert_allclose(family.kl(experts.dist[0], dist), 0, atol=1e-6)


@each_family
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_expert_order_does_not_matter(aggregate, family):
    experts = make_experts(family, 4)
    swapped = jax.tree.map(lambda x: x[jnp.array([2, 0, 3, 1])], experts)
    (one, q), (two, r) = aggregate(experts), aggregate(swapped)
    for a, b in zip(jax.tree.leaves((one, q)), jax.tree.leaves((two, r)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_best_is_the_highest_surrogate():
    experts = make_experts(DiagGaussian(2), 4)._replace(surrogate=jnp.array([0.1, 0.3, 0.2, -1]))
    assert same(consensus.best(experts).policy, consensus.tree_pick(experts.policy, 1))


def test_average_is_the_mean_of_parameters():
    experts = make_experts(DiagGaussian(2), 4)
    expected = jax.tree.map(lambda x: x.mean(axis=0), experts.policy)
    found = consensus.average(experts).policy
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def linear_experts(log_stds):
    keys = jax.random.split(jax.random.key(3), len(log_stds))
    family = DiagGaussian(2)
    policies = [
        Policy(MLP((jax.random.normal(k, (3, 2)),), (jax.random.normal(k, (2,)),)), s, family)
        for k, s in zip(keys, log_stds, strict=True)
    ]
    policies = stack(policies)
    return Experts(policies, (), policies, jax.vmap(lambda p: p(OBS))(policies), jnp.zeros(3))


def test_logop_is_the_average_for_linear_experts_of_equal_variance():
    experts = linear_experts([jnp.array([-0.5, 0.2])] * 3)
    policy, q = consensus.logop(experts)
    np.testing.assert_allclose(consensus.average(experts).policy(OBS), q, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(policy(OBS), q, rtol=1e-5, atol=1e-5)


def test_logop_is_not_the_average_when_variances_differ():
    log_stds = [jnp.array([s, s]) for s in (-1.0, 0.0, 1.0)]
    experts = linear_experts(log_stds)
    policy, q = consensus.logop(experts)
    assert np.abs(consensus.average(experts).policy(OBS) - q).max() > 0.1
    precision = np.exp(-2 * np.array([-1.0, 0.0, 1.0]))
    means = np.asarray(experts.dist[..., :2])
    expected = np.einsum("k,knd->nd", precision, means) / precision.sum()
    np.testing.assert_allclose(q[:, :2], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.log_std, -0.5 * np.log(precision.mean()), rtol=1e-5)


def test_average_of_a_replaced_leaf():
    """Averaging goes leaf by leaf: moving one expert's log std by 1 moves the mean by 1/K."""
    experts = make_experts(DiagGaussian(2), 4)
    moved = eqx.tree_at(lambda e: e.policy.log_std, experts, experts.policy.log_std.at[2].add(1.0))
    before, after = consensus.average(experts).policy, consensus.average(moved).policy
    np.testing.assert_allclose(after.log_std - before.log_std, 0.25, rtol=1e-5)
    assert same(after.net, before.net)


def test_methods_share_these_functions():
    from capo import METHODS

    assert METHODS["capo"].aggregate is consensus.logop
    assert dataclasses.replace(METHODS["capo-avg"], aggregate=consensus.best).wide
