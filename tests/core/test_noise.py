"""Coloured action noise: exactly standard normal in every step, correlated as the filter says."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma

from capo.core.families import Bernoulli, Categorical, DiagGaussian
from capo.core.noise import MEMORY, coloured, kernel
from capo.methods import settle
from capo.rollout import action_noise
from support.learners import small

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("colour", [0.25, 0.5, 1.0, 2.0])
def test_the_kernel_is_that_of_fractional_integration(colour):
    d, j = colour / 2, np.arange(20)
    expected = gamma(j + d) / (gamma(j + 1) * gamma(d))
    psi = kernel(colour)
    np.testing.assert_allclose(psi[:20] / psi[0], expected, rtol=1e-12)
    np.testing.assert_allclose(np.sum(psi**2), 1.0)


def test_white_noise_stays_as_it_is():
    white = RNG.standard_normal((MEMORY + 9, 3), dtype=np.float32)
    np.testing.assert_allclose(coloured(white, 0.0), white[MEMORY - 1 :], atol=1e-6)


def test_the_convolution_is_the_sum_over_the_past():
    white = RNG.standard_normal((MEMORY + 40, 2))
    direct = [kernel(0.5) @ white[t : t + MEMORY][::-1] for t in range(41)]
    np.testing.assert_allclose(coloured(white, 0.5), direct, atol=1e-12)


def test_coloured_noise_has_unit_variance_and_the_autocorrelation_of_its_kernel():
    white = RNG.standard_normal((MEMORY - 1 + 64, 4000))
    found, psi = coloured(white, 0.5), kernel(0.5)
    # 4000 samples a step: five standard errors of a variance are 5 √(2/4000) = 0.11.
    np.testing.assert_allclose(found.var(axis=1), 1.0, atol=0.11)
    for lag in (1, 5, 20):
        expected = psi[lag:] @ psi[:-lag]
        np.testing.assert_allclose(np.mean(found[lag:] * found[:-lag]), expected, atol=0.02)


@pytest.mark.parametrize(
    ("family", "law"),
    [(DiagGaussian(2), "norm"), (Categorical(2), "gumbel_r"), (Bernoulli(2), "logistic")],
)
def test_the_noise_of_every_family_has_its_marginal_law(family, law):
    config = settle(small(num_envs=500, num_steps=4, minibatches=4, action_noise=0.5))
    noise = action_noise(config, family, 0)
    assert noise.shape == (4, 500, 2)
    # One step, so that the samples are independent; the seed is fixed.
    assert stats.kstest(noise[2].reshape(-1), law).pvalue > 0.01


def test_the_colour_continues_across_batches_of_any_length():
    family, size = DiagGaussian(1), 20_000
    sizes = {"num_envs": size, "num_steps": 2, "minibatches": 2, "total_steps": 2 * size}
    config = settle(small(action_noise=1.0, **sizes))
    before, after = (action_noise(config, family, index) for index in (3, 4))
    steps = np.concatenate([before, after])[..., 0]
    psi = kernel(1.0)
    within, across = np.mean(steps[0] * steps[1]), np.mean(steps[1] * steps[2])
    expected = psi[1:] @ psi[:-1]
    # Five standard errors of a correlation of 20,000 pairs.
    np.testing.assert_allclose([within, across], expected, atol=5 / np.sqrt(size))


def test_noise_is_a_function_of_the_seed_and_the_generation():
    family, config = DiagGaussian(2), settle(small(action_noise=0.5))
    first = action_noise(config, family, 7)
    np.testing.assert_array_equal(first, action_noise(config, family, 7))
    for other in (action_noise(config, family, 8), action_noise(config.replace(seed=9), family, 7)):
        assert not np.array_equal(first, other)
