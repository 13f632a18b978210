"""Exponential families: log π(a) = ⟨η, T(a)⟩ − A(η) + log h(a).

A policy network outputs, for every state, one flat array `dist` of distribution parameters in the
numerically stable form: (mean, log std) for a Gaussian, logits for discrete families.
Each family implements log-density, KL and entropy in closed form, and the map to and from natural
parameters η. Fisher, LogOP and Theorem 1 are generic functions of η. All functions take any leading
axes. Sampling runs on the host, in NumPy.
"""

import abc
import functools
import operator
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, Shaped
from scipy.special import log_ndtr

from capo.core.masking import Good, Weight, expert_mean

Dist = Float[Array, "*batch params"]
Natural = Float[Array, "*batch natural"]
Scalar = Float[Array, "*batch"]
Action = Num[Array, "*batch_and_event"]
HostDist = Float[np.ndarray, "*batch params"]
HostNormal = Float[np.ndarray, "*batch normals"]
Host = Shaped[np.ndarray, "..."]


def namespace(x: object) -> Any:
    """`numpy` for host arrays, `jax.numpy` for the rest: one forward pass serves both."""
    return np if isinstance(x, np.ndarray) else jnp


def excess(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """eˣ − 1 − x ≥ 0: Σ p·excess(log q − log p) is KL(p ‖ q) with no cancelling terms."""
    return jnp.expm1(x) - x


def gumbel(normal: HostNormal) -> HostNormal:
    """The standard Gumbel variable −log(−log Φ(z)) of a standard normal z."""
    return -np.log(-log_ndtr(normal.astype(float))).astype(np.float32)


def logistic(normal: HostNormal) -> HostNormal:
    """The standard logistic variable log Φ(z) − log Φ(−z) of a standard normal z."""
    z = normal.astype(float)
    return (log_ndtr(z) - log_ndtr(-z)).astype(np.float32)


def total(terms: Iterable[Scalar]) -> Scalar:
    """Σ_i x_i."""
    return functools.reduce(operator.add, terms)


class Family(abc.ABC):
    """The action distribution of a policy, for one kind of action space."""

    @classmethod
    @abc.abstractmethod
    def for_space(cls, space: gym.Space) -> "Family | None":
        """The family of an action space; None for a space of another kind."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of distribution parameters per state."""

    @property
    def shared(self) -> int:
        """Number of trailing parameters that may be state-independent; 0 for none."""
        return 0

    def constrain(self, dist):
        """Maps raw network outputs to the domain of the parameters."""
        return dist

    @abc.abstractmethod
    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        """Log π(a), closed form."""

    @abc.abstractmethod
    def kl(self, p: Dist, q: Dist) -> Scalar:
        """KL(p ‖ q), closed form."""

    @abc.abstractmethod
    def entropy(self, p: Dist) -> Scalar:
        """−E_p[log p]."""

    @abc.abstractmethod
    def natural(self, dist: Dist) -> Natural:
        """η of the minimal representation."""

    @abc.abstractmethod
    def from_natural(self, eta: Natural) -> Dist:
        """The inverse of `natural`."""

    @abc.abstractmethod
    def log_partition(self, eta: Natural) -> Scalar:
        """A(η)."""

    @abc.abstractmethod
    def sufficient(self, action: Action) -> Natural:
        """T(a)."""

    def log_base(self, action: Action) -> float:
        """Log h(a); a constant in every family here."""
        return 0.0

    def logop(
        self,
        dists: Float[Array, "experts *batch params"],
        good: Good = None,
        weight: Weight = None,
    ) -> Dist:
        """The logarithmic opinion pool q ∝ Π_k π_k^(w_k/K): η̄ = (1/K) Σ_k w_k η_k.

        `good` masks the experts; K counts those inside the mask.
        """
        return self.from_natural(expert_mean(self.natural(dists), good, weight))

    @property
    @abc.abstractmethod
    def noise_size(self) -> int:
        """Standard normals that an action takes."""

    def noise(self, normal: HostNormal) -> Host:
        """Noise for `sample`, from independent standard normals: z itself unless overridden."""
        return normal

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        """Independent noise for `sample`."""
        return self.noise(rng.standard_normal((*shape, self.noise_size), dtype=np.float32))

    @abc.abstractmethod
    def sample(self, dist: HostDist, noise: Host) -> Host:
        """An action, as a deterministic function of `dist` and `noise`."""

    @abc.abstractmethod
    def mode(self, dist: HostDist) -> Host:
        """The most likely action."""
