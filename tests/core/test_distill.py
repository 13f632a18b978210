"""Distillation reaches q; the line search stays within the trust region."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from capo.core import consensus
from capo.core.distill import batch_kl, distill, distill_adam, line_search
from capo.core.families import DiagGaussian
from capo.methods import settle
from support.equality import same
from support.policies import FAMILIES, OBS, fresh_policy, make_experts
from support.probes import small

VARIANTS = [(family, False) for family in FAMILIES] + [(DiagGaussian(2), True)]


@pytest.mark.parametrize(("family", "state_std"), VARIANTS)
@pytest.mark.parametrize("start", ["average", "incumbent"])
def test_distillation_reaches_its_tolerance(family, state_std, start):
    config = settle(small("capo", distill_init=start, distill_tol=0.01))
    experts = make_experts(family, 4, state_std=state_std)
    incumbent = fresh_policy(0, 3, family, (8,), state_std)
    policy, q = consensus.logop(experts)
    student = incumbent if start == "incumbent" else policy
    fitted, info = jax.jit(lambda s: distill(s, q, incumbent(OBS), OBS, config))(student)
    goal = 0.01 * float(jnp.mean(family.kl(incumbent(OBS), q)))
    assert float(info["distill_kl"]) <= goal
    assert float(batch_kl(fitted, OBS, q)) <= goal * 1.01
    assert (info["distill_steps"] > 0) == (float(info["distill_kl_start"]) > goal)


def test_the_divergence_is_from_the_distribution_to_the_policy():
    """A π narrower by e^−a has KL(p ‖ π) = e^2a/2 − 1/2 − a in each dimension, the reverse less."""
    policy = fresh_policy(0, 3, DiagGaussian(2), (8,))
    narrow = eqx.tree_at(lambda x: x.log_std, policy, policy.log_std - 0.5)
    expected = 2 * (np.exp(1.0) / 2 - 0.5 - 0.5)
    np.testing.assert_allclose(batch_kl(narrow, OBS, policy(OBS)), expected, rtol=1e-4)


def test_a_student_within_tolerance_does_not_move():
    config = settle(small("capo"))
    policy = fresh_policy(0, 3, DiagGaussian(2), (8,))
    other = fresh_policy(1, 3, DiagGaussian(2), (8,))
    fitted, info = distill(policy, policy(OBS), other(OBS), OBS, config)
    assert same(fitted, policy)
    assert float(info["distill_steps"]) == 0


@functools.cache
def searcher(delta):
    """A compiled search for each trust region: direction and length of the candidate vary."""

    def search(key, size):
        incumbent = fresh_policy(0, 3, DiagGaussian(2), (8,))
        candidate = jax.tree.map(lambda x: x + size * jax.random.normal(key, x.shape), incumbent)
        dist = incumbent(OBS)
        found, info = line_search(incumbent, candidate, dist, OBS, delta)
        return incumbent, candidate, found, batch_kl(found, OBS, dist), info

    return jax.jit(search)


def searched(delta, size, seed=5):
    *rest, kl, info = searcher(delta)(jax.random.key(seed), jnp.float32(size))
    return *rest, float(kl), info


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    delta=hs.sampled_from([1e-4, 1e-2, 1.0]),
    size=hs.floats(1e-4, 2.0),
    seed=hs.integers(0, 2**31),
)
def test_the_line_search_never_exceeds_delta(delta, size, seed):
    *_, kl, info = searched(delta, size, seed)
    # The KL is computed twice in a program that may round them differently.
    assert kl <= delta * (1 + 1e-4)
    assert 0 <= float(info["step_scale"]) <= 1


def test_a_candidate_that_fits_is_untouched():
    _, candidate, found, _, info = searched(1.0, 0.01)
    assert same(found, candidate)
    assert float(info["step_scale"]) == 1.0


def test_the_step_is_the_furthest_on_the_grid():
    *_, kl, info = searched(0.01, 0.5)
    scale = float(info["step_scale"])
    tries = np.log(scale) / np.log(0.8)
    assert scale < 1
    assert tries == pytest.approx(round(tries), abs=1e-3)
    # One grid point further would be about 1/0.8² of this KL, and outside.
    assert kl > 0.01 * 0.8**2 * 0.8


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_incumbent_stays_when_nothing_fits(bad):
    incumbent = fresh_policy(0, 3, DiagGaussian(2), (8,))
    candidate = jax.tree.map(lambda x: x + bad, incumbent)
    found, info = line_search(incumbent, candidate, incumbent(OBS), OBS, 0.02)
    assert same(found, incumbent)
    assert float(info["line_search_failed"]) == 1
    assert float(info["step_scale"]) == 0


def test_adam_distils_within_the_trust_region():
    config = settle(small("capo", distill_steps=200, delta=10.0))
    incumbent, other = (fresh_policy(seed, 3, DiagGaussian(2), (8,)) for seed in (0, 1))
    target, dist, rate = other(OBS), incumbent(OBS), jnp.float32(1e-2)
    fitted, info = distill_adam(incumbent, target, dist, OBS, rate, config)
    assert float(info["distill_kl"]) < 0.1 * float(info["distill_kl_start"])
    assert float(info["distill_steps"]) == 200
    near = 0.1 * float(batch_kl(fitted, OBS, dist))
    config = config.replace(delta=near)
    held, info = distill_adam(incumbent, target, dist, OBS, rate / 100, config)
    assert 0 < float(batch_kl(held, OBS, dist)) <= near
    assert float(info["distill_steps"]) < 200
