"""Policy and critic networks: tanh MLPs with orthogonal initialisation."""

import itertools
import math
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from capo.families import DiagGaussian, Family, namespace

Tree = TypeVar("Tree")


class MLP(eqx.Module):
    """x ↦ W_L tanh(… tanh(x W_1 + b_1) …) + b_L, over any leading axes.

    Works on NumPy arrays as it does on JAX arrays, so the same lines act on the host, where a
    jitted call for a handful of environments costs several times more.
    """

    weights: tuple[Float[Any, "_ _"], ...]
    biases: tuple[Float[Any, " _"], ...]

    def __call__(self, x) -> Any:
        tanh = namespace(x).tanh
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = tanh(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


def init_mlp(key: PRNGKeyArray, sizes: tuple[int, ...], head_scale: float) -> MLP:
    """Orthogonal weights of gain √2, `head_scale` in the last layer; zero biases."""
    scales = [math.sqrt(2)] * (len(sizes) - 2) + [head_scale]
    keys = jax.random.split(key, len(scales))
    layers = zip(keys, scales, itertools.pairwise(sizes), strict=True)
    weights = tuple(jax.nn.initializers.orthogonal(s)(k, shape) for k, s, shape in layers)
    return MLP(weights, tuple(jnp.zeros(size) for size in sizes[1:]))


class Policy(eqx.Module):
    """Observations to distribution parameters of `family`.

    `log_std` is the state-independent log standard deviation of a Gaussian, None where the network
    outputs every distribution parameter itself.
    """

    net: MLP
    log_std: Float[Any, " dim"] | None
    family: Family = eqx.field(static=True)

    def __call__(self, obs) -> Any:
        out = self.net(obs)
        if self.log_std is not None:
            xp = namespace(out)
            spread = xp.broadcast_to(self.log_std, (*out.shape[:-1], self.log_std.shape[0]))
            out = xp.concatenate([out, spread], axis=-1)
        return self.family.constrain(out)


class Critic(eqx.Module):
    """Observations to the value of the state, V(s)."""

    net: MLP

    def __call__(self, obs) -> Any:
        return self.net(obs)[..., 0]


def init_policy(
    key: PRNGKeyArray,
    obs_size: int,
    family: Family,
    hidden: tuple[int, ...],
    state_dependent_std: bool = False,
) -> Policy:
    """A policy whose head is scaled by 0.01: its first actions hardly depend on the state."""
    split = isinstance(family, DiagGaussian) and not state_dependent_std
    outputs = family.dim if isinstance(family, DiagGaussian) and split else family.size
    net = init_mlp(key, (obs_size, *hidden, outputs), head_scale=0.01)
    return Policy(net, jnp.zeros(outputs) if split else None, family)


def init_critic(key: PRNGKeyArray, obs_size: int, hidden: tuple[int, ...]) -> Critic:
    """A critic with a head of gain 1."""
    return Critic(init_mlp(key, (obs_size, *hidden, 1), head_scale=1.0))


def to_host(module: Tree) -> Tree:
    """The same network with NumPy leaves, to act with."""
    return jax.tree.map(np.asarray, module)
