"""The average over generations against its sum, written out."""

import jax
import numpy as np
import pytest

from capo.core.ema import averaged
from capo.core.families import DiagGaussian
from support.policies import fresh_policy

POLICIES = [fresh_policy(seed, 3, DiagGaussian(2), (8,)) for seed in range(5)]


@pytest.mark.parametrize("tau", [1e-3, 0.5, 0.99, 1.0])
def test_the_average_is_the_weighted_mean_of_all_policies(tau):
    found = POLICIES[-1]  # The first generation replaces it.
    for count, policy in enumerate(POLICIES, 1):
        found = averaged(found, policy, tau, count)
        weights = np.array([tau ** (count - i) for i in range(1, count + 1)])
        expected = jax.tree.map(
            lambda *theta, w=weights: np.tensordot(w / w.sum(), np.stack(theta), 1),
            *POLICIES[:count],
        )
        for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_without_its_bias_it_is_the_usual_recursion_from_then_on():
    """For t → ∞ the rate is 1 − τ: ψ ← τψ + (1 − τ)θ."""
    found = averaged(POLICIES[0], POLICIES[1], 0.9, 1000)
    expected = jax.tree.map(lambda psi, theta: 0.9 * psi + 0.1 * theta, *POLICIES[:2])
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_it_starts_at_the_policy_and_can_be_off():
    assert averaged(None, POLICIES[0], 0.9, 7) is POLICIES[0]
    assert averaged(POLICIES[0], POLICIES[1], 0.0, 7) is None
