"""Closed forms against definitions, and Theorem 1 for every family."""

import functools

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as hs

from capo import UsageError
from capo.core.families import Bernoulli, Categorical, DiagGaussian, MultiCategorical, family_for
from support.policies import FAMILIES, each_family, every_action, random_dist

DISCRETE = FAMILIES[1:]


def random_action(family, rng, shape):
    dist = np.zeros((*shape, family.size))
    return jnp.asarray(family.sample(dist, family.draw(rng, shape)))


@each_family
def test_log_prob_is_the_exponential_family_form(family, float64):
    rng = np.random.default_rng(0)
    dist, action = random_dist(family, rng, (50,)), random_action(family, rng, (50,))
    eta = family.natural(dist)
    generic = jnp.sum(eta * family.sufficient(action), -1) - family.log_partition(eta)
    np.testing.assert_allclose(
        family.log_prob(dist, action), generic + family.log_base(action), rtol=1e-10
    )


@each_family
def test_kl_is_the_bregman_divergence_of_the_log_partition(family, float64):
    rng = np.random.default_rng(1)
    p, q = random_dist(family, rng, (50,)), random_dist(family, rng, (50,))
    eta_p, eta_q = family.natural(p), family.natural(q)
    slope = jax.vmap(jax.grad(family.log_partition))(eta_p)
    bregman = family.log_partition(eta_q) - family.log_partition(eta_p)
    bregman -= jnp.sum((eta_q - eta_p) * slope, -1)
    np.testing.assert_allclose(family.kl(p, q), bregman, rtol=1e-9)


@each_family
def test_entropy_follows_from_the_log_partition(family, float64):
    dist = random_dist(family, np.random.default_rng(2), (20,))
    eta = family.natural(dist)
    slope = jax.vmap(jax.grad(family.log_partition))(eta)
    base = family.log_base(jnp.zeros(()))
    generic = family.log_partition(eta) - jnp.sum(eta * slope, -1) - base
    np.testing.assert_allclose(family.entropy(dist), generic, rtol=1e-9)


@each_family
def test_natural_parameters_round_trip(family, float64):
    p = random_dist(family, np.random.default_rng(3), (20,))
    back = family.from_natural(family.natural(p))
    np.testing.assert_allclose(family.kl(p, back), 0, atol=1e-12)


@each_family
def test_logop_is_the_mean_of_natural_parameters(family, float64):
    dists = random_dist(family, np.random.default_rng(4), (5, 20))
    expected = jnp.mean(family.natural(dists), axis=0)
    np.testing.assert_allclose(family.natural(family.logop(dists)), expected, atol=1e-10)


@pytest.mark.parametrize("family", DISCRETE, ids=lambda f: type(f).__name__)
def test_discrete_logop_is_the_normalised_geometric_mean(family, float64):
    dists = random_dist(family, np.random.default_rng(5), (3,))
    actions = every_action(family)
    log_probs = jnp.stack([jax.vmap(lambda a, d=d: family.log_prob(d, a))(actions) for d in dists])
    product = np.exp(log_probs.mean(axis=0))
    pooled = jax.vmap(lambda a: family.log_prob(family.logop(dists), a))(actions)
    np.testing.assert_allclose(np.exp(pooled), product / product.sum(), rtol=1e-9)


@each_family
def test_float32_is_close_to_float64(family):
    rng = np.random.default_rng(6)
    p = np.asarray(rng.standard_normal((200, family.size)), np.float32)
    q = np.asarray(p + 0.05 * rng.standard_normal(p.shape), np.float32)
    single = np.asarray(family.kl(jnp.asarray(p), jnp.asarray(q)))
    with jax.enable_x64(True):
        double = np.asarray(family.kl(jnp.asarray(p, float), jnp.asarray(q, float)))
    # 1e-6 of absolute error is a ten-thousandth of the KL of an update.
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-6)
    assert (single >= -1e-6).all()


def test_gaussian_against_scipy(float64):
    rng = np.random.default_rng(7)
    family, p, q = DiagGaussian(1), random_dist(DiagGaussian(1), rng), jnp.array([0.3, -0.4])
    (mean, std), (mean_q, std_q) = ((float(d[0]), float(np.exp(d[1]))) for d in (p, q))
    a = 0.7
    np.testing.assert_allclose(
        family.log_prob(p, jnp.array([a])), st.norm.logpdf(a, mean, std), rtol=1e-12
    )
    np.testing.assert_allclose(family.entropy(p), st.norm.entropy(mean, std), rtol=1e-12)
    integral = st.norm(mean, std).expect(
        lambda x: st.norm.logpdf(x, mean, std) - st.norm.logpdf(x, mean_q, std_q)
    )
    np.testing.assert_allclose(family.kl(p, q), integral, rtol=1e-7)


def test_categorical_against_scipy(float64):
    rng = np.random.default_rng(8)
    family = Categorical(5)
    p, q = random_dist(family, rng), random_dist(family, rng)
    probs, probs_q = np.asarray(jax.nn.softmax(p)), np.asarray(jax.nn.softmax(q))
    np.testing.assert_allclose(family.entropy(p), st.entropy(probs), rtol=1e-10)
    np.testing.assert_allclose(family.kl(p, q), st.entropy(probs, probs_q), rtol=1e-9)
    one_hot = np.eye(5)[3]
    expected = st.multinomial.logpmf(one_hot, 1, probs)
    np.testing.assert_allclose(family.log_prob(p, jnp.array(3)), expected, rtol=1e-10)


def test_bernoulli_against_scipy(float64):
    rng = np.random.default_rng(9)
    family = Bernoulli(3)
    p, q = random_dist(family, rng), random_dist(family, rng)
    on, on_q = np.asarray(jax.nn.sigmoid(p)), np.asarray(jax.nn.sigmoid(q))
    np.testing.assert_allclose(family.entropy(p), st.bernoulli.entropy(on).sum(), rtol=1e-10)
    both, both_q = np.stack([on, 1 - on]), np.stack([on_q, 1 - on_q])
    np.testing.assert_allclose(family.kl(p, q), st.entropy(both, both_q).sum(), rtol=1e-9)
    bits = np.array([1, 0, 1])
    expected = st.bernoulli.logpmf(bits, on).sum()
    np.testing.assert_allclose(family.log_prob(p, jnp.asarray(bits)), expected, rtol=1e-10)


def test_multicategorical_is_a_product_of_categoricals(float64):
    rng = np.random.default_rng(10)
    family = MultiCategorical((2, 3))
    p, q = random_dist(family, rng), random_dist(family, rng)
    first, second = Categorical(2), Categorical(3)
    np.testing.assert_allclose(
        family.kl(p, q), first.kl(p[:2], q[:2]) + second.kl(p[2:], q[2:]), rtol=1e-10
    )
    np.testing.assert_allclose(
        family.log_prob(p, jnp.array([1, 2])),
        first.log_prob(p[:2], jnp.array(1)) + second.log_prob(p[2:], jnp.array(2)),
        rtol=1e-10,
    )


@each_family
def test_samples_follow_the_distribution(family):
    """The mean of T(a) over samples is ∇A(η), within five standard errors."""
    rng = np.random.default_rng(11)
    dist = np.asarray(0.5 * rng.standard_normal(family.size), np.float32)
    n = 20_000
    actions = family.sample(np.broadcast_to(dist, (n, family.size)), family.draw(rng, (n,)))
    seen = np.asarray(family.sufficient(jnp.asarray(actions)))
    expected = jax.grad(family.log_partition)(family.natural(jnp.asarray(dist)))
    error = 5 * seen.std(axis=0) / np.sqrt(n)
    assert (np.abs(seen.mean(axis=0) - expected) < error).all()


@each_family
def test_mode_has_the_highest_probability(family):
    rng = np.random.default_rng(12)
    dist = np.asarray(rng.standard_normal(family.size), np.float32)
    mode = family.log_prob(jnp.asarray(dist), jnp.asarray(family.mode(dist)))
    noise = family.draw(rng, (200,))
    actions = jnp.asarray(family.sample(np.broadcast_to(dist, (200, family.size)), noise))
    others = jax.vmap(lambda a: family.log_prob(jnp.asarray(dist), a))(actions)
    assert float(mode) >= float(others.max()) - 1e-6


@functools.partial(jax.jit, static_argnames="family")
def sides(family, incumbent, experts, slope):
    """Linear gain and KL of every expert, and of their pool."""
    q = family.logop(experts)
    eta_t = family.natural(incumbent)
    gain = (family.natural(experts) - eta_t) @ slope
    kl = family.kl(jnp.broadcast_to(incumbent, experts.shape), experts)
    return gain, kl, (family.natural(q) - eta_t) @ slope, family.kl(incumbent, q)


@each_family
@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    seed=hs.integers(0, 2**32 - 1),
    width=hs.sampled_from([1, 2, 3, 4, 8]),
    scale=hs.floats(1e-3, 3.0),
)
def test_theorem_1(family, seed, width, scale):
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        incumbent = rng.standard_normal(family.size)
        experts = incumbent + scale * rng.standard_normal((width, family.size))
        slope = rng.standard_normal(family.natural(jnp.asarray(incumbent)).shape)
        gain, kl, gain_q, kl_q = jax.device_get(sides(family, incumbent, experts, slope))
    # float64 rounding of terms as large as the largest gain and KL of the case
    slack = 1e-10 * (1 + np.abs(gain).max() + kl.max())
    assert abs(gain_q - gain.mean()) <= slack, "(a) the linear gain is preserved"
    assert kl_q <= kl.mean() + slack, "(b) the KL is at most the mean"
    for strength in (0.01, 1.0, 100.0):
        penalised = (gain - strength * kl).mean()
        assert gain_q - strength * kl_q >= penalised - (1 + strength) * slack, "(c) more per KL"
    assert kl_q <= kl.max() + slack, "(d) the trust region is convex"


@pytest.mark.parametrize(
    ("space", "family"),
    [
        (gym.spaces.Box(-1, 1, (3,)), DiagGaussian(3)),
        (gym.spaces.Discrete(4), Categorical(4)),
        (gym.spaces.MultiDiscrete([2, 3]), MultiCategorical((2, 3))),
        (gym.spaces.MultiBinary(3), Bernoulli(3)),
    ],
)
def test_family_for_a_space(space, family):
    assert family_for(space) == family


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Tuple([gym.spaces.Discrete(2)]),
        gym.spaces.Box(-1, 1, (2, 2)),
        gym.spaces.Box(0, 9, (2,), np.int32),
        gym.spaces.MultiBinary((2, 2)),
    ],
)
def test_unsupported_action_spaces_are_named(space):
    with pytest.raises(UsageError, match=r"action space .* is not supported") as error:
        family_for(space)
    assert str(space) in str(error.value)
