"""Convolutions as patches times a matrix, on the host as on a device."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo import UsageError
from capo.core.encoding import Encoder
from capo.core.families import Categorical, DiagGaussian
from capo.core.networks import init_policy, patches, to_host
from capo.methods import settle
from support.probes import small

SHAPES = {"small": (10, 10, 4), "large": (4, 84, 84)}


def policy_for(shape, **changes):
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    config = settle(small(network="cnn", **changes), space)
    encoder = Encoder.of(config, space)
    return encoder, init_policy(jax.random.key(0), encoder, Categorical(3), config)


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (4, 2), (3, 3)])
def test_patches_times_a_matrix_is_a_convolution(size, stride, float64):
    rng = np.random.default_rng(0)
    x, kernel = rng.standard_normal((2, 9, 7, 3)), rng.standard_normal((size, size, 3, 5))
    wanted = jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    found = patches(x, size, stride) @ kernel.reshape(-1, 5)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(patches(jnp.asarray(x), size, stride), patches(x, size, stride))


@pytest.mark.parametrize("name", SHAPES)
def test_host_and_device_agree(name):
    encoder, policy = policy_for(SHAPES[name])
    images = np.random.default_rng(0).integers(0, 256, (3, *encoder.shape), np.uint8)
    on_host = to_host(policy)(images)
    on_device = jax.jit(lambda p, x: p(x))(policy, images)
    assert on_host.shape == (3, 3)
    # Sums of some thousand float32 terms, in another order.
    np.testing.assert_allclose(on_host, on_device, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(to_host(policy)(images[0]), on_host[0], rtol=1e-3, atol=1e-6)


def test_layer_sizes_are_those_of_the_nature_and_minatar_networks():
    _, large = policy_for(SHAPES["large"], hidden=(512,))
    assert [kernel.shape for kernel in large.net.kernels] == [(256, 32), (512, 64), (576, 64)]
    assert large.net.head.weights[0].shape == (3136, 512)
    _, small_net = policy_for(SHAPES["small"], hidden=(128,))
    assert [kernel.shape for kernel in small_net.net.kernels] == [(36, 16)]
    assert small_net.net.head.weights[0].shape == (1024, 128)


def test_pixels_are_scaled_to_at_most_one():
    _, policy = policy_for((5, 5, 1))
    bright, scaled = np.full((5, 5, 1), 255, np.uint8), np.ones((5, 5, 1), np.float32)
    same = Encoder(gym.spaces.Box(0, 1, (5, 5, 1)), image=True)
    config = small(network="cnn", activation="relu")
    other = init_policy(jax.random.key(0), same, Categorical(3), config)
    np.testing.assert_allclose(to_host(policy)(bright), to_host(other)(scaled), rtol=1e-5)


def test_an_image_of_two_pixels_is_refused():
    with pytest.raises(UsageError, match="images of 3 × 3 or more, not 2 × 8"):
        policy_for((2, 8, 1))


@pytest.mark.parametrize("state_dependent_std", [False, True])
def test_a_gaussian_begins_with_the_deviation_asked_for(state_dependent_std):
    space = gym.spaces.Box(-1, 1, (3,))
    changes = {"initial_std": 0.25, "state_dependent_std": state_dependent_std}
    config = settle(small(**changes), space)
    policy = init_policy(jax.random.key(0), Encoder.of(config, space), DiagGaussian(2), config)
    log_std = policy(jnp.zeros((1, 3)))[0, 2:]  # without an observation the biases alone
    np.testing.assert_allclose(np.exp(log_std), 0.25, rtol=1e-6)
