"""The outer step against its recursion, written out."""

import jax
import jax.numpy as jnp
import numpy as np

from capo.core.families import DiagGaussian
from capo.core.outer import MAX_CUTS, count_cuts, init_outer, outer_step
from support.policies import fresh_policy
from support.probes import small


def test_momentum_follows_its_recursion():
    config = small(outer_lr=0.5, outer_momentum=0.9)
    policy = fresh_policy(0, 3, DiagGaussian(2), (8,))
    outer, momentum = init_outer(policy), 0.0
    for update in (0.1, -0.3, 0.2):
        candidate = jax.tree.map(lambda x, u=update: x + u, policy)
        found, outer = outer_step(policy, candidate, outer, config)
        momentum = 0.9 * momentum + update
        expected = jax.tree.map(lambda x, m=momentum: x + 0.5 * m, policy)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)  # some ulps of parameters near 1
        policy = found


def test_a_unit_step_without_momentum_returns_the_candidate_itself():
    policy = fresh_policy(0, 3, DiagGaussian(2), (8,))
    candidate = jax.tree.map(lambda x: x + 0.1, policy)
    found, outer = outer_step(policy, candidate, None, small())
    assert found is candidate
    assert outer is None


def test_momentum_is_cleared_after_consecutive_cuts_only():
    outer = init_outer(fresh_policy(0, 3, DiagGaussian(2), (8,)))
    outer = outer._replace(momentum=jax.tree.map(jnp.ones_like, outer.momentum))
    for scale in (0.8, 0.8, 1.0, 0.8, 0.8):
        outer = count_cuts(outer, jnp.float32(scale))
    assert int(outer.cuts) == MAX_CUTS - 1
    assert all(jnp.all(x == 1) for x in jax.tree.leaves(outer.momentum))
    outer = count_cuts(outer, jnp.float32(0.8))
    assert int(outer.cuts) == 0
    assert all(jnp.all(x == 0) for x in jax.tree.leaves(outer.momentum))
