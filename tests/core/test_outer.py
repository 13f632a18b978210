"""The outer step."""

import jax
import numpy as np

from capo.core.families import DiagGaussian
from capo.core.outer import outer_step
from support.policies import fresh_policy


def test_a_step_of_two_goes_twice_as_far_as_the_update():
    policy = fresh_policy(0, 3, DiagGaussian(2), (8,))
    candidate = jax.tree.map(lambda x: x + 0.1, policy)
    found = outer_step(policy, candidate, 2.0)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(policy), strict=True):
        np.testing.assert_allclose(a, b + 0.2, atol=1e-6)  # some ulps of parameters near 1
