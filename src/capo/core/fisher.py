"""The Fisher information of a policy, and the signal/waste decomposition of an update.

F = Jᵀ G J, exact in the actions: J is the derivative of the distribution parameters with respect to
the network's, G their Fisher metric, the Hessian of KL(π ‖ ·) at π. In natural parameters G is
∇²A(η); any other coordinates give the same F, because the gradient of the KL vanishes at π.

An update Δ = θ − θ_t splits into signal and waste (the paper's Definition 1):
Δ = c d̂ + ε with d̂ = F⁻¹g / ‖F⁻¹g‖_F, c = ⟨Δ, d̂⟩_F and ⟨ε, d̂⟩_F = 0. `decompose` does that for
any policy; `Geometry` does it for many updates of one policy.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Num, Shaped

from capo.core.family import Family
from capo.core.natural_gradient import HostVector, natural_gradient
from capo.core.networks import Policy

Vector = Float[Array, " p"]
LogProb = Callable[[Any, Any, Any], Any]
Apply = Callable[[Any, Any], Any]


class Experience(NamedTuple):
    """The data of an update: n observations, actions and advantages."""

    obs: Num[Any, "n ..."]
    actions: Num[Any, "n ..."]
    advantages: Float[Any, " n"]


class Decomposition(NamedTuple):
    """Signal and waste of one update: c² and ‖ε‖²_F, each twice its KL."""

    c: float
    """⟨Δ, d̂⟩_F."""
    signal: float
    """c²."""
    waste: float
    """‖ε‖²_F."""
    total: float
    """ΔᵀFΔ = signal + waste."""
    alignment: float
    """α = signal / total."""
    cosine: float
    """cos_F(Δ) = c / ‖Δ‖_F."""
    kl: float
    """KL(π_t ‖ π) over the batch: exact with a family, estimated from the actions without one."""
    kl_quadratic: float
    """½ ΔᵀFΔ."""
    gain: float
    """gᵀΔ, the first-order gain of the surrogate."""
    gain_natural: float
    """c ‖F⁻¹g‖_F, equal to `gain` as far as damping and residual are small (Proposition 1)."""
    damping: float
    """λ of the natural gradient."""
    residual: float
    """Relative residual of the natural gradient."""
    iterations: int
    """Fisher-vector products it took."""


def fisher_operator(
    policy: Policy, obs: Shaped[Array, "n *obs"]
) -> tuple[Vector, Callable[[Vector], Vector]]:
    """The flat parameters and v ↦ F v, averaged over the observations."""
    flat, unravel = ravel_pytree(policy)
    return flat, _pull_back(policy.family, lambda theta: unravel(theta)(obs), flat)


def _pull_back(family: Family, dist_of: Callable[[Vector], Any], flat: Vector):
    """The product v ↦ Jᵀ G J v for the map from parameters to distributions."""
    dist, forward = jax.linearize(dist_of, flat)
    backward = jax.linear_transpose(forward, flat)

    def slope(other):
        return jax.grad(lambda d: jnp.mean(family.kl(dist, d)))(other)

    def product(v: Vector) -> Vector:
        _, metric = jax.jvp(slope, (dist,), (forward(v),))
        return backward(metric)[0]

    return product


def conjugate_gradient(
    product: Callable[[Vector], Vector],
    b: Vector,
    iterations: int,
    damping: float | Float[Array, ""],
) -> Vector:
    """An approximate solution of (F + damping·I) x = b in at most `iterations` steps."""

    def damped(v: Vector) -> Vector:
        return product(v) + damping * v

    return jax.scipy.sparse.linalg.cg(damped, b, tol=1e-6, maxiter=iterations)[0]


def decompose(
    policy: Family | LogProb,
    before: Any,
    after: Any,
    experience: Experience,
    apply: Apply | None = None,
    **options: Any,
) -> Decomposition:
    """Splits the update `before` → `after` into signal and waste.

    `policy` interprets the parameters. It is a family, with `apply(params, obs)` giving its
    distribution parameters (default: `params(obs)`): the Fisher is then exact in the actions. Or
    a function `log_prob(params, obs, actions)` over the whole batch, for any policy at all: the
    Fisher is then the second moment of ∇log π over the actions that were taken.

    The parameters are any pytree of arrays; everything is computed in float64. `options` are those
    of `natural_gradient`. Advantages are used as given: standardise them if the update did.
    """
    return Geometry(policy, before, experience, apply, **options).decompose(after)


class Geometry:
    """The Fisher geometry of a batch at π_t, for any number of updates from there."""

    def __init__(
        self,
        policy: Family | LogProb,
        before: Any,
        experience: Experience,
        apply: Apply | None = None,
        **options: Any,
    ):
        self._static = (policy, apply or _call)
        with jax.enable_x64(True):
            self._before = jax.device_put(_double(before))
            self.experience = jax.device_put(_double(experience))
        self.theta = self.flat(before)
        self.gradient = self._run(_gradient)
        self.natural = natural_gradient(self.product, self.gradient, **options)

    def flat(self, params: Any) -> HostVector:
        """The parameters as one float64 vector."""
        with jax.enable_x64(True):
            return np.asarray(ravel_pytree(_double(params))[0])

    def product(self, v: HostVector) -> HostVector:
        """F v over the batch."""
        return self._run(_product, v)

    def kl(self, after: Any) -> float:
        """KL(π_t ‖ π) over the batch."""
        return float(self._run(_kl, _double(after)))

    def _run(self, function, *args) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(function(*self._static, self._before, self.experience, *args))

    def project(self, updates: Float[np.ndarray, "m p"]) -> tuple[np.ndarray, np.ndarray]:
        """The signals c_i = ⟨Δ_i, d̂⟩_F and all inner products ⟨Δ_i, Δ_j⟩_F."""
        images = np.stack([self.product(update) for update in updates])
        c = _ratio(updates @ self.natural.image, self.natural.norm)
        return c, updates @ images.T

    def decompose(self, after: Any) -> Decomposition:
        """Splits the update to `after`."""
        update = self.flat(after) - self.theta
        signals, inner = self.project(update[None])
        c, total, natural = float(signals[0]), float(inner[0, 0]), self.natural
        return Decomposition(
            c=c,
            signal=c * c,
            waste=max(total - c * c, 0.0),
            total=total,
            alignment=float(_ratio(c * c, total)),
            cosine=float(_ratio(c, math.sqrt(max(total, 0.0)))),
            kl=self.kl(after),
            kl_quadratic=0.5 * total,
            gain=float(self.gradient @ update),
            gain_natural=c * natural.norm,
            damping=natural.damping,
            residual=natural.residual,
            iterations=natural.iterations,
        )


def _ratio(top: Any, bottom: float) -> Any:
    """The quotient; NaN for a zero denominator."""
    return top / bottom if bottom > 0 else top * math.nan


def _call(params: Any, obs: Any) -> Any:
    return params(obs)


def _double(tree: Any) -> Any:
    """Floating point leaves in float64, the others as they are."""

    def convert(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array

    return jax.tree.map(convert, tree)


_compiled = functools.partial(jax.jit, static_argnums=(0, 1))


def _log_prob(policy: Family | LogProb, apply: Apply, params: Any, data: Experience):
    if isinstance(policy, Family):
        return policy.log_prob(apply(params, data.obs), data.actions)
    return policy(params, data.obs, data.actions)


@_compiled
def _gradient(policy: Family | LogProb, apply: Apply, params: Any, data: Experience):
    """The gradient of the surrogate at π_t, g = E[A ∇log π(a|s)]."""
    slope = jax.grad(lambda p: jnp.mean(data.advantages * _log_prob(policy, apply, p, data)))
    return ravel_pytree(slope(params))[0]


@_compiled
def _product(policy: Family | LogProb, apply: Apply, params: Any, data: Experience, v: Vector):
    flat, unravel = ravel_pytree(params)
    if isinstance(policy, Family):
        return _pull_back(policy, lambda theta: apply(unravel(theta), data.obs), flat)(v)

    def score(theta):
        return _log_prob(policy, apply, unravel(theta), data)

    _, along = jax.jvp(score, (flat,), (v,))
    return jax.vjp(score, flat)[1](along / along.size)[0]


@_compiled
def _kl(policy: Family | LogProb, apply: Apply, params: Any, data: Experience, after: Any):
    if isinstance(policy, Family):
        return jnp.mean(policy.kl(apply(params, data.obs), apply(after, data.obs)))
    ends = (_log_prob(policy, apply, p, data) for p in (params, after))
    log_ratio = -jnp.subtract(*ends)
    return jnp.mean(jnp.expm1(log_ratio) - log_ratio)
