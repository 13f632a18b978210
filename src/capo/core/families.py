"""The families of action distributions, one for each kind of action space."""

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, log_softmax, logsumexp, sigmoid, softplus
from jaxtyping import Array, Float

from capo.core.family import (
    Action,
    Dist,
    Family,
    Host,
    HostDist,
    HostNormal,
    Natural,
    Scalar,
    excess,
    gumbel,
    logistic,
    namespace,
    total,
)
from capo.core.masking import Good, Weight, expert_mean, first
from capo.errors import UsageError

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


@dataclass(frozen=True)
class DiagGaussian(Family):
    """N(μ, diag σ²); `dist` is (μ, log σ), η = (μ/σ², −1/(2σ²))."""

    dim: int

    @classmethod
    def for_space(cls, space: gym.Space) -> Family | None:
        if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
            return cls(space.shape[0]) if len(space.shape) == 1 else None
        return None

    @property
    def size(self) -> int:
        return 2 * self.dim

    @property
    def shared(self) -> int:
        return self.dim

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
        spread = excess(2 * (log_p - log_q))
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

    def logop(
        self,
        dists: Float[Array, "experts *batch params"],
        good: Good = None,
        weight: Weight = None,
    ) -> Dist:
        """Precision weighting, relative to the first expert: exact for experts that agree."""
        mean, log_std = self._split(dists)
        k = first(good)
        precision = jnp.exp(-2 * (log_std - log_std[k]))
        pooled = expert_mean(precision, good, weight)
        shift = expert_mean(precision * (mean - mean[k]), good, weight) / pooled
        log_std_q = log_std[k] - 0.5 * jnp.log(pooled)
        return jnp.concatenate([mean[k] + shift, log_std_q], axis=-1)

    @property
    def noise_size(self) -> int:
        return self.dim

    def sample(self, dist: HostDist, noise: Host) -> Host:
        mean, log_std = self._split(dist)
        return mean + np.exp(log_std) * noise

    def mode(self, dist: HostDist) -> Host:
        return dist[..., : self.dim]


@dataclass(frozen=True)
class Categorical(Family):
    """One of n choices; `dist` is the logits, η_i = logit_i − logit_n for i < n."""

    n: int

    @classmethod
    def for_space(cls, space: gym.Space) -> Family | None:
        return cls(int(space.n)) if isinstance(space, gym.spaces.Discrete) else None

    @property
    def size(self) -> int:
        return self.n

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        picked = jnp.take_along_axis(log_softmax(dist), action[..., None].astype(int), axis=-1)
        return picked[..., 0]

    def kl(self, p: Dist, q: Dist) -> Scalar:
        log_p = log_softmax(p)
        return jnp.sum(jnp.exp(log_p) * excess(log_softmax(q) - log_p), axis=-1)

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

    @property
    def noise_size(self) -> int:
        return self.n

    def noise(self, normal: HostNormal) -> Host:
        return gumbel(normal)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return np.asarray(np.argmax(dist + noise, axis=-1))

    def mode(self, dist: HostDist) -> Host:
        return np.asarray(np.argmax(dist, axis=-1))


@dataclass(frozen=True)
class MultiCategorical(Family):
    """Several independent choices; `dist` is their logits one after the other."""

    nvec: tuple[int, ...]

    @classmethod
    def for_space(cls, space: gym.Space) -> Family | None:
        if isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
            return cls(tuple(int(n) for n in space.nvec))
        return None

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
        return total(part.log_prob(d, action[..., i]) for i, (part, d) in terms)

    def kl(self, p: Dist, q: Dist) -> Scalar:
        return total(part.kl(a, b) for part, a, b in self._parts(p, q))

    def entropy(self, p: Dist) -> Scalar:
        return total(part.entropy(d) for part, d in self._parts(p))

    def natural(self, dist: Dist) -> Natural:
        return jnp.concatenate([part.natural(d) for part, d in self._parts(dist)], axis=-1)

    def from_natural(self, eta: Natural) -> Dist:
        parts = self._parts(eta, drop=1)
        return jnp.concatenate([part.from_natural(e) for part, e in parts], axis=-1)

    def log_partition(self, eta: Natural) -> Scalar:
        return total(part.log_partition(e) for part, e in self._parts(eta, drop=1))

    def sufficient(self, action: Action) -> Natural:
        terms = enumerate(self._parts())
        return jnp.concatenate([part.sufficient(action[..., i]) for i, (part,) in terms], axis=-1)

    @property
    def noise_size(self) -> int:
        return self.size

    def noise(self, normal: HostNormal) -> Host:
        return gumbel(normal)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return self.mode(dist + noise)

    def mode(self, dist: HostDist) -> Host:
        return np.stack([part.mode(d) for part, d in self._parts(dist)], axis=-1)


@dataclass(frozen=True)
class Bernoulli(Family):
    """n independent bits; `dist` and η are their logits."""

    n: int

    @classmethod
    def for_space(cls, space: gym.Space) -> Family | None:
        if isinstance(space, gym.spaces.MultiBinary) and len(space.shape) == 1:
            return cls(space.shape[0])
        return None

    @property
    def size(self) -> int:
        return self.n

    def log_prob(self, dist: Dist, action: Action) -> Scalar:
        return jnp.sum(action * dist - softplus(dist), axis=-1)

    def kl(self, p: Dist, q: Dist) -> Scalar:
        on = sigmoid(p) * excess(log_sigmoid(q) - log_sigmoid(p))
        off = sigmoid(-p) * excess(log_sigmoid(-q) - log_sigmoid(-p))
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

    @property
    def noise_size(self) -> int:
        return self.n

    def noise(self, normal: HostNormal) -> Host:
        return logistic(normal)

    def sample(self, dist: HostDist, noise: Host) -> Host:
        return (dist + noise > 0).astype(np.int8)

    def mode(self, dist: HostDist) -> Host:
        return (dist > 0).astype(np.int8)


FAMILIES: tuple[type[Family], ...] = (DiagGaussian, Categorical, MultiCategorical, Bernoulli)


def family_for(space: gym.Space) -> Family:
    """The family of an action space; an unsupported space is an error."""
    for kind in FAMILIES:
        if (family := kind.for_space(space)) is not None:
            return family
    raise UsageError(
        f"the action space {space} is not supported; "
        "it must be a flat float Box, Discrete, MultiDiscrete or MultiBinary"
    )


def widest_entropy(family: Family) -> float:
    """Entropy of the policy that every run begins with: log σ = 0, or all choices alike."""
    return float(family.entropy(jnp.zeros(family.size)))


def to_env(space: gym.Space, actions: np.ndarray) -> np.ndarray:
    """Clips continuous actions to the space; shifts discrete ones to where the space begins."""
    if isinstance(space, gym.spaces.Box):
        return np.clip(actions, space.low, space.high)
    if isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        return np.asarray(actions + space.start)
    return actions
