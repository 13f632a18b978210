"""Policy and critic networks: MLPs and CNNs with orthogonal initialisation."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from capo.core.encoding import LARGEST_SMALL_IMAGE, Encoder, leaf_spaces
from capo.core.family import Family, namespace
from capo.core.own_network import OwnNetwork, is_own, make_own, makers_of
from capo.core.settings import NetworkSettings
from capo.errors import UsageError

Tree = TypeVar("Tree")


def activate(name: str, x) -> Any:
    """Tanh(x) or max(x, 0)."""
    if name == "tanh":
        return namespace(x).tanh(x)
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else jax.nn.relu(x)


class MLP(eqx.Module):
    """x ↦ W_L f(… f(x W_1 + b_1) …) + b_L, over any leading axes; f is tanh or ReLU.

    Takes NumPy and JAX arrays. Acting for a few environments is several times faster in NumPy than
    by a jitted call.
    """

    weights: tuple[Float[Any, "_ _"], ...]
    biases: tuple[Float[Any, " _"], ...]
    activation: str = eqx.field(static=True, default="tanh")

    def __call__(self, x) -> Any:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = activate(self.activation, x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


def init_mlp(
    key: PRNGKeyArray, sizes: tuple[int, ...], head_scale: float, activation: str = "tanh"
) -> MLP:
    """Orthogonal weights of gain √2, `head_scale` in the last layer; zero biases."""
    scales = [math.sqrt(2)] * (len(sizes) - 2) + [head_scale]
    keys = jax.random.split(key, len(scales))
    layers = zip(keys, scales, itertools.pairwise(sizes), strict=True)
    weights = tuple(_orthogonal(k, s, shape) for k, s, shape in layers)
    return MLP(weights, tuple(jnp.zeros(size) for size in sizes[1:]), activation)


def _orthogonal(key: PRNGKeyArray, scale: float, shape: tuple[int, int]) -> Float[Any, "_ _"]:
    return jax.nn.initializers.orthogonal(scale)(key, shape)


class CNN(eqx.Module):
    """Convolutions with ReLU over images with channels last, then an MLP.

    A convolution is the patches of the image times a matrix: on a CPU that trains several times
    faster than XLA's own convolution, maps over experts as a matrix product does, and works on
    NumPy arrays too. `strides` are (patch, stride); row (i·patch + j)·channels + c of a kernel
    belongs to channel c of the pixel (i, j).
    """

    kernels: tuple[Float[Any, "_ _"], ...]
    biases: tuple[Float[Any, " _"], ...]
    head: MLP
    strides: tuple[tuple[int, int], ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __call__(self, x) -> Any:
        x = x.astype(self.kernels[0].dtype) * self.scale
        for kernel, bias, (size, stride) in zip(
            self.kernels, self.biases, self.strides, strict=True
        ):
            x = activate("relu", patches(x, size, stride) @ kernel + bias)
        return self.head(activate("relu", x.reshape(*x.shape[:-3], -1)))


class MultiNet(eqx.Module):
    """A CNN for each image of a Dict or Tuple, then an MLP over their features and the other parts.

    `parts` are start and end in the encoded vector, and the shape of an image or None.
    """

    images: tuple[CNN, ...]
    head: MLP
    parts: tuple[tuple[int, int, tuple[int, ...] | None], ...] = eqx.field(static=True)

    def __call__(self, x) -> Any:
        nets, features = iter(self.images), []
        for start, end, shape in self.parts:
            part = x[..., start:end]
            if shape is not None:
                part = activate("relu", next(nets)(part.reshape(*x.shape[:-1], *shape)))
            features.append(part)
        return self.head(namespace(x).concatenate(features, axis=-1))


def patches(x, size: int, stride: int) -> Any:
    """The size × size squares of images, `stride` apart, each as one vector on the last axis."""
    height, width = (stride * (_steps(length, size, stride) - 1) + 1 for length in x.shape[-3:-1])
    corners = itertools.product(range(size), repeat=2)
    pieces = [x[..., i : i + height : stride, j : j + width : stride, :] for i, j in corners]
    return namespace(x).concatenate(pieces, axis=-1)


def _steps(length: int, size: int, stride: int) -> int:
    return (length - size) // stride + 1


LARGE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, patch and stride of Mnih et al.'s network for Atari's 84 × 84."""
SMALL = ((16, 3, 1),)
"""The network of Young and Tian for MinAtar's 10 × 10."""
FEATURES = 128
"""Numbers that a CNN makes of an image beside other observations."""


def init_cnn(
    key: PRNGKeyArray, encoder: Encoder, sizes: tuple[int, ...], head_scale: float, activation: str
) -> CNN:
    """The large network for images over 35 pixels, else the small one; `sizes` follow it."""
    *pixels, channels = encoder.shape
    layers = LARGE if min(pixels) > LARGEST_SMALL_IMAGE else SMALL
    if min(pixels) < SMALL[0][1]:
        raise UsageError(f"a CNN needs images of 3 × 3 or more, not {pixels[0]} × {pixels[1]}")
    head_key, *keys = jax.random.split(key, len(layers) + 1)
    kernels = []
    for layer_key, (filters, size, stride) in zip(keys, layers, strict=True):
        kernels.append(_orthogonal(layer_key, math.sqrt(2), (size * size * channels, filters)))
        pixels, channels = [_steps(length, size, stride) for length in pixels], filters
    head = init_mlp(head_key, (math.prod(pixels) * channels, *sizes), head_scale, activation)
    biases = tuple(jnp.zeros(filters) for filters, _, _ in layers)
    strides = tuple((size, stride) for _, size, stride in layers)
    return CNN(tuple(kernels), biases, head, strides, encoder.scale)


def init_multi(
    key: PRNGKeyArray, encoder: Encoder, sizes: tuple[int, ...], head_scale: float, activation: str
) -> MultiNet:
    """`FEATURES` numbers of each image, beside the other parts; `sizes` follow them."""
    head_key, *keys = jax.random.split(key, len(encoder.parts) + 1)
    images, width = [], 0
    for part_key, leaf, (start, end, shape) in zip(
        keys, leaf_spaces(encoder.space), encoder.parts, strict=True
    ):
        if shape is not None:
            seen = Encoder(leaf, True)
            cnn = init_cnn(part_key, seen, (FEATURES,), math.sqrt(2), "relu")
            images.append(dataclasses.replace(cnn, scale=1.0))  # the encoding has scaled pixels
        width += FEATURES if shape is not None else end - start
    head = init_mlp(head_key, (width, *sizes), head_scale, activation)
    return MultiNet(tuple(images), head, tuple(encoder.parts))


Net = MLP | CNN | MultiNet | OwnNetwork


def init_net(
    key: PRNGKeyArray, encoder: Encoder, outputs: int, head_scale: float, config: NetworkSettings
) -> MLP | CNN | MultiNet:
    """The usual network of a settled configuration."""
    sizes = (*config.hidden, outputs)
    if encoder.multi:
        return init_multi(key, encoder, sizes, head_scale, config.activation)
    if encoder.image:
        return init_cnn(key, encoder, sizes, head_scale, config.activation)
    return init_mlp(key, (*encoder.shape, *sizes), head_scale, config.activation)


class Policy(eqx.Module):
    """Observations to distribution parameters of `family`.

    `log_std` is the state-independent log standard deviation of a Gaussian, None where the network
    outputs every distribution parameter itself.
    """

    net: Net
    log_std: Float[Any, " dim"] | None
    family: Family = eqx.field(static=True)

    def __call__(self, obs) -> Any:
        out = self.net(obs)
        if self.log_std is not None:
            xp = namespace(out)
            spread = xp.broadcast_to(self.log_std, (*out.shape[:-1], self.log_std.shape[0]))
            out = xp.concatenate([out, spread], axis=-1)
        return self.family.constrain(out)

    def actor(self, noise: np.ndarray) -> Callable[[int, np.ndarray], np.ndarray]:
        """(t, observations) ↦ actions drawn with noise[t], on the host.

        Equal to `family.sample`. A state-independent deviation turns the noise into shifts of the
        mean, which are computed once.
        """
        if self.log_std is None:
            return lambda t, obs: self.family.sample(self(obs), noise[t])
        centred = np.concatenate([np.zeros_like(self.log_std), self.log_std])
        shifts = self.family.sample(self.family.constrain(centred), noise)
        return lambda t, obs: self.net(obs) + shifts[t]


class Critic(eqx.Module):
    """Observations to the value of the state, V(s)."""

    net: Net

    def __call__(self, obs) -> Any:
        return self.net(obs)[..., 0]


def init_policy(
    key: PRNGKeyArray, encoder: Encoder, family: Family, config: NetworkSettings
) -> Policy:
    """A policy with a head of gain 0.01, whose first actions hardly depend on the state."""
    shared = 0 if config.state_dependent_std else family.shared
    own = makers_of(config.network).policy if is_own(config.network) else None
    outputs = family.size - shared
    net = (
        init_net(key, encoder, outputs, 0.01, config)
        if own is None
        else make_own(own, key, encoder.shape, outputs)
    )
    start = math.log(config.initial_std)
    if shared:
        return Policy(net, jnp.full(shared, start), family)
    if family.shared and not isinstance(net, OwnNetwork):
        bias = _last_bias(net).at[-family.shared :].set(start)
        net = eqx.tree_at(_last_bias, net, bias)
    return Policy(net, None, family)


def _last_bias(net: MLP | CNN | MultiNet) -> Any:
    return (net if isinstance(net, MLP) else net.head).biases[-1]


def init_critic(key: PRNGKeyArray, encoder: Encoder, config: NetworkSettings) -> Critic:
    """A critic with a head of gain 1."""
    own = makers_of(config.network).value if is_own(config.network) else None
    if own is not None:
        return Critic(make_own(own, key, encoder.shape, 1))
    return Critic(init_net(key, encoder, 1, 1.0, config))


def to_host(module: Tree) -> Tree:
    """The network with NumPy leaves."""
    return jax.tree.map(np.asarray, module)
