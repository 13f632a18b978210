"""Exponential families: log π(a) = ⟨η, T(a)⟩ − A(η) + log h(a).

A policy network outputs, for every state, one flat array `dist` of distribution parameters in the
form that floating point likes best: (mean, log std) for a Gaussian, logits for the discrete ones.
Each family knows the closed forms of log-density, KL and entropy in that form, and the map to and
from natural parameters η, from which everything else (Fisher, LogOP, Theorem 1) follows without
code of its own. All functions take any leading axes. Sampling is host side, in NumPy.
"""

import abc
import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, log_softmax, logsumexp, sigmoid, softplus
from jaxtyping import Array, Float, Num, Shaped

from capo.config import UsageError
from capo.finite import Good, first, mask

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0

Dist = Float[Array, "*batch params"]
Natural = Float[Array, "*batch natural"]
Scalar = Float[Array, "*batch"]
Action = Num[Array, "*batch_and_event"]
HostDist = Float[np.ndarray, "*batch params"]
Host = Shaped[np.ndarray, "..."]


def namespace(x: object) -> Any:
    """`numpy` for host arrays, `jax.numpy` for the rest: one forward pass serves both."""
    return np if isinstance(x, np.ndarray) else jnp


def _excess(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """eˣ − 1 − x ≥ 0: Σ p·excess(log q − log p) is KL(p ‖ q) with no cancelling terms."""
    return jnp.expm1(x) - x


def _total(terms: Iterable[Scalar]) -> Scalar:
    return functools.reduce(operator.add, terms)


class Family(abc.ABC):
    """What a policy's action distribution is, for one kind of action space."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many distribution parameters a state has."""

    def constrain(self, dist):
        """Brings raw network outputs into the family's domain."""
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

    def logop(self, dists: Float[Array, "experts *batch params"], good: Good = None) -> Dist:
        """The logarithmic opinion pool q ∝ Π_k π_k^(1/K): η̄ = (1/K) Σ_k η_k.

        With `good`, of those experts alone: K is their number.
        """
        eta = self.natural(dists)
        return self.from_natural(jnp.mean(eta, axis=0, where=mask(good, eta)))

    @abc.abstractmethod
    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        """The randomness of `sample`, drawn ahead for a whole rollout."""

    @abc.abstractmethod
    def sample(self, dist: HostDist, noise: Host) -> Host:
        """An action, as a deterministic function of `dist` and `noise`."""

    @abc.abstractmethod
    def mode(self, dist: HostDist) -> Host:
        """The most likely action."""


@dataclass(frozen=True)
class DiagGaussian(Family):
    """N(μ, diag σ²); `dist` is (μ, log σ), η = (μ/σ², −1/(2σ²))."""

    dim: int

    @property
    def size(self) -> int:
        return 2 * self.dim

    def constrain(self, dist):
        xp = namespace(dist)
        mean, log_std = self._split(dist)
        return xp.concatenate([mean, xp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX)], axis=-1)

    def _split(self, dist):
        return dist[..., : self.dim], dist[..., self.dim :]

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        mean, log_std = self._split(dist)
        z = (action - mean) * jnp.exp(-log_std)
        return -jnp.sum(0.5 * z**2 + log_std, axis=-1) + self.log_base(action)

    def kl(self, p: Dist, q: Dist) -> Scalar:
        (mean_p, log_p), (mean_q, log_q) = self._split(p), self._split(q)
        spread = _excess(2 * (log_p - log_q))
        shift = (mean_p - mean_q) ** 2 * jnp.exp(-2 * log_q)
        return 0.5 * jnp.sum(spread + shift, axis=-1)

    def entropy(self, p: Dist) -> Scalar:
        _, log_std = self._split(p)
        return jnp.sum(log_std, axis=-1) + 0.5 * self.dim * math.log(2 * math.pi * math.e)

    def natural(self, dist: Dist) -> Natural:
        mean, log_std = self._split(dist)
        precision = jnp.exp(-2 * log_std)
        return jnp.concatenate([mean * precision, -0.5 * precision], axis=-1)

    def from_natural(self, eta: Natural) -> Dist:
        first, second = self._split(eta)
        precision = -2 * second
        return jnp.concatenate([first / precision, -0.5 * jnp.log(precision)], axis=-1)

    def log_partition(self, eta: Natural) -> Scalar:
        first, second = self._split(eta)
        return jnp.sum(-(first**2) / (4 * second) - 0.5 * jnp.log(-2 * second), axis=-1)

    def sufficient(self, action: Action) -> Natural:
        return jnp.concatenate([action, action**2], axis=-1)

    def log_base(self, action: Action) -> float:
        return -0.5 * self.dim * math.log(2 * math.pi)

    def logop(self, dists: Float[Array, "experts *batch params"], good: Good = None) -> Dist:
        """Precision weighting, relative to the first expert: exact for experts that agree."""
        mean, log_std = self._split(dists)
        k, where = first(good), mask(good, dists)
        weight = jnp.exp(-2 * (log_std - log_std[k]))
        moved = jnp.sum(weight * (mean - mean[k]), axis=0, where=where)
        shift = moved / jnp.sum(weight, axis=0, where=where)
        log_std_q = log_std[k] - 0.5 * jnp.log(jnp.mean(weight, axis=0, where=where))
        return jnp.concatenate([mean[k] + shift, log_std_q], axis=-1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        return rng.standard_normal((*shape, self.dim), dtype=np.float32)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        mean, log_std = self._split(dist)
        return mean + np.exp(log_std) * noise

    def mode(self, dist: HostDist) -> Host:
        return dist[..., : self.dim]


@dataclass(frozen=True)
class Categorical(Family):
    """One of n choices; `dist` is the logits, η_i = logit_i − logit_n for i < n."""

    n: int

    @property
    def size(self) -> int:
        return self.n

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        picked = jnp.take_along_axis(log_softmax(dist), action[..., None].astype(int), axis=-1)
        return picked[..., 0]

    def kl(self, p: Dist, q: Dist) -> Scalar:
        log_p = log_softmax(p)
        return jnp.sum(jnp.exp(log_p) * _excess(log_softmax(q) - log_p), axis=-1)

    def entropy(self, p: Dist) -> Scalar:
        log_p = log_softmax(p)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def natural(self, dist: Dist) -> Natural:
        return dist[..., :-1] - dist[..., -1:]

    def from_natural(self, eta: Natural) -> Dist:
        return jnp.concatenate([eta, jnp.zeros_like(eta[..., :1])], axis=-1)

    def log_partition(self, eta: Natural) -> Scalar:
        return logsumexp(self.from_natural(eta), axis=-1)

    def sufficient(self, action: Action) -> Natural:
        return jax.nn.one_hot(action.astype(int), self.n)[..., :-1]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        return rng.gumbel(size=(*shape, self.n)).astype(np.float32)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return np.asarray(np.argmax(dist + noise, axis=-1))

    def mode(self, dist: HostDist) -> Host:
        return np.asarray(np.argmax(dist, axis=-1))


@dataclass(frozen=True)
class MultiCategorical(Family):
    """Several independent choices; `dist` is their logits one after the other."""

    nvec: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.nvec)

    def _parts(self, *arrays, drop: int = 0) -> Any:
        """Each choice's family with its piece of the arrays."""
        ends = np.cumsum([n - drop for n in self.nvec])[:-1]
        pieces = (namespace(x).split(x, ends, axis=-1) for x in arrays)
        return zip(map(Categorical, self.nvec), *pieces, strict=True)

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        terms = enumerate(self._parts(dist))
        return _total(part.log_prob(d, action[..., i]) for i, (part, d) in terms)

    def kl(self, p: Dist, q: Dist) -> Scalar:
        return _total(part.kl(a, b) for part, a, b in self._parts(p, q))

    def entropy(self, p: Dist) -> Scalar:
        return _total(part.entropy(d) for part, d in self._parts(p))

    def natural(self, dist: Dist) -> Natural:
        return jnp.concatenate([part.natural(d) for part, d in self._parts(dist)], axis=-1)

    def from_natural(self, eta: Natural) -> Dist:
        parts = self._parts(eta, drop=1)
        return jnp.concatenate([part.from_natural(e) for part, e in parts], axis=-1)

    def log_partition(self, eta: Natural) -> Scalar:
        return _total(part.log_partition(e) for part, e in self._parts(eta, drop=1))

    def sufficient(self, action: Action) -> Natural:
        terms = enumerate(self._parts())
        return jnp.concatenate([part.sufficient(action[..., i]) for i, (part,) in terms], axis=-1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        return rng.gumbel(size=(*shape, self.size)).astype(np.float32)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return self.mode(dist + noise)

    def mode(self, dist: HostDist) -> Host:
        return np.stack([part.mode(d) for part, d in self._parts(dist)], axis=-1)


@dataclass(frozen=True)
class Bernoulli(Family):
    """n independent bits; `dist` and η are their logits."""

    n: int

    @property
    def size(self) -> int:
        return self.n

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        return jnp.sum(action * dist - softplus(dist), axis=-1)

    def kl(self, p: Dist, q: Dist) -> Scalar:
        on = sigmoid(p) * _excess(log_sigmoid(q) - log_sigmoid(p))
        off = sigmoid(-p) * _excess(log_sigmoid(-q) - log_sigmoid(-p))
        return jnp.sum(on + off, axis=-1)

    def entropy(self, p: Dist) -> Scalar:
        return -jnp.sum(sigmoid(p) * log_sigmoid(p) + sigmoid(-p) * log_sigmoid(-p), axis=-1)

    def natural(self, dist: Dist) -> Natural:
        return dist

    def from_natural(self, eta: Natural) -> Dist:
        return eta

    def log_partition(self, eta: Natural) -> Scalar:
        return jnp.sum(softplus(eta), axis=-1)

    def sufficient(self, action: Action) -> Natural:
        return jnp.asarray(action, jnp.result_type(float))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Host:
        return rng.logistic(size=(*shape, self.n)).astype(np.float32)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return (dist + noise > 0).astype(np.int8)

    def mode(self, dist: HostDist) -> Host:
        return (dist > 0).astype(np.int8)


def family_for(space: gym.Space) -> Family:
    """The family of an action space; a space that has none is refused by name."""
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if len(space.shape) == 1:
            return DiagGaussian(space.shape[0])
    elif isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    elif isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return MultiCategorical(tuple(int(n) for n in space.nvec))
    elif isinstance(space, gym.spaces.MultiBinary) and len(space.shape) == 1:
        return Bernoulli(space.shape[0])
    raise UsageError(
        f"the action space {space} is not supported; "
        "it must be a flat float Box, Discrete, MultiDiscrete or MultiBinary"
    )
