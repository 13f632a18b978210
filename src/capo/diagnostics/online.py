"""Signal and waste of one update during a run: the step taken, the experts, their consensus."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Shaped

from capo.config import Config
from capo.core.batch import Batch
from capo.core.consensus import tree_pick
from capo.core.family import Family
from capo.core.fisher import Experience, Geometry
from capo.core.networks import Policy
from capo.core.ppo import standardize

DEFAULT_COUNT = 10
"""Number of generations diagnosed by default, besides the last."""


def diagnosed_generations(config: Config) -> frozenset[int]:
    """Generations to diagnose: every N-th, or by default ten evenly spaced, and the last."""
    count, every = config.num_generations, config.diagnostics
    if every == 0:
        return frozenset()
    spaced = range(every - 1, count, every) if every else _evenly_spaced(count)
    return frozenset([*spaced, count - 1])


def _evenly_spaced(count: int) -> list[int]:
    return [i * count // DEFAULT_COUNT for i in range(DEFAULT_COUNT)]


def to_experience(batch: Batch, advantages: Float[Any, " n"]) -> Experience:
    """The batch in one axis, with standardised advantages, over which the gradient g is taken."""
    obs, actions = (x.reshape(-1, *x.shape[2:]) for x in (batch.obs, batch.actions))
    return Experience(obs, actions, standardize(np.asarray(advantages, np.float64)))


def diagnose(
    incumbent: Policy, experts: Policy, taken: Policy, data: Experience, **options: Any
) -> dict[str, float]:
    """Decomposes the step taken, as `fisher/…`, and K > 1 experts, as `consensus/…`.

    `experts` are stacked. `options` are those of `capo.core.natural_gradient.natural_gradient`.
    """
    geometry = Geometry(incumbent.family, incumbent, data, **options)
    split = geometry.decompose(taken)
    row = {f"fisher/{name}": float(value) for name, value in split._asdict().items()}
    policies = unstack(experts)
    if len(policies) == 1:
        return row
    updates = np.stack([geometry.flat(policy) for policy in policies]) - geometry.theta
    c, inner = geometry.project(updates)
    with np.errstate(divide="ignore", invalid="ignore"):  # all experts may have zero updates
        metrics = agreement(c, inner)
        metrics["signal_kept"] = float(split.c / np.mean(c))
        metrics["waste_ratio"] = float(split.waste / np.float64(metrics["expert_waste"]))
        metrics |= decompose_pool(geometry, incumbent, policies)
    return row | {f"consensus/{name}": value for name, value in metrics.items()}


def unstack(experts: Policy) -> list[Policy]:
    """The list of the policies in a stack."""
    width = jax.tree.leaves(experts)[0].shape[0]
    return [tree_pick(experts, k) for k in range(width)]


def agreement(c: Float[np.ndarray, " k"], inner: Float[np.ndarray, "k k"]) -> dict[str, float]:
    """Similarity of K updates, from their signals c_k and inner products ⟨Δ_i, Δ_j⟩_F.

    ρ is the mean over pairs of ⟨u_i, u_j⟩_F / (‖u_i‖_F ‖u_j‖_F), for u the signals c_k d̂, the
    wastes ε_k and the updates Δ_k. `waste_ratio_predicted` is ‖ε̄‖² / mean ‖ε_k‖² for the average
    ε̄ of wastes of equal size: 1/K + (1 − 1/K) ρ_ε.
    """
    signal = np.outer(c, c)
    waste = inner - signal
    rho_waste = _mean_cosine(waste)
    return {
        "rho_signal": _mean_cosine(signal),
        "rho_waste": rho_waste,
        "rho_total": _mean_cosine(inner),
        "signal_spread": float(np.std(c) / abs(np.mean(c))),
        "expert_signal": float(np.mean(c**2)),
        "expert_waste": float(np.mean(np.diag(waste))),
        "expert_alignment": float(np.mean(c**2 / np.diag(inner))),
        "waste_ratio_predicted": predicted_ratio(len(c), rho_waste),
    }


def predicted_ratio(width: int, rho_waste: float) -> float:
    """Predicted waste ratio of an average of K updates: 1/K + (1 − 1/K) ρ_ε."""
    return 1 / width + (1 - 1 / width) * rho_waste


def _mean_cosine(gram: Float[np.ndarray, "k k"]) -> float:
    """Mean cosine of pairs of vectors, from their Gram matrix."""
    sizes = np.sqrt(np.maximum(np.diag(gram), 0.0))
    pairs = np.triu_indices(len(gram), 1)
    return float(np.mean((gram / np.outer(sizes, sizes))[pairs]))


def decompose_pool(
    geometry: Geometry, incumbent: Policy, experts: list[Policy]
) -> dict[str, float]:
    """Decomposes the analytic pool q, η̄ = (1/K) Σ η_k, which has no parameters.

    The decomposition is in the space of natural parameters: Δη in place of Δ, ∇²A(η_t) averaged
    over the batch in place of F, and J d̂ in place of d̂. The experts' waste in `q_waste_ratio` is
    measured there too.
    """
    family, obs = incumbent.family, geometry.experience.obs
    unit = geometry.natural.x / np.float64(geometry.natural.norm)
    with jax.enable_x64(True):
        start, axis = _tangent(incumbent, obs, unit)
        etas = [np.asarray(_natural(policy, obs)) for policy in experts]
        moves = [eta - start for eta in (np.mean(etas, axis=0), *etas)]
        pairs = np.array([_inner_products(family, start, move, axis) for move in moves])
    total, along = pairs.T
    waste = total - along**2
    return {
        "q_signal": float(along[0] ** 2),
        "q_waste": float(waste[0]),
        "q_alignment": float(along[0] ** 2 / total[0]),
        "q_signal_kept": float(along[0] / np.mean(along[1:])),
        "q_waste_ratio": float(waste[0] / np.mean(waste[1:])),
    }


@jax.jit
def _natural(policy: Policy, obs: Shaped[Array, "n *obs"]):
    """The natural parameters η over the batch."""
    policy = jax.tree.map(lambda x: x.astype(float), policy)
    return policy.family.natural(policy(obs))


@jax.jit
def _tangent(policy: Policy, obs: Shaped[Array, "n *obs"], v: Float[Array, " p"]):
    """η over the batch, and its derivative J v along a direction v of the parameters."""
    flat, unravel = ravel_pytree(jax.tree.map(lambda x: x.astype(float), policy))
    return jax.jvp(lambda theta: policy.family.natural(unravel(theta)(obs)), (flat,), (v,))


@functools.partial(jax.jit, static_argnums=0)
def _inner_products(family: Family, start, move, axis):
    """⟨Δη, Δη⟩ and ⟨Δη, axis⟩ under E_s ∇²A(η_t)."""
    slope = jax.grad(lambda eta: jnp.sum(family.log_partition(eta)))
    _, image = jax.jvp(slope, (start,), (move,))
    states = start.shape[0]
    return jnp.stack([jnp.vdot(move, image), jnp.vdot(axis, image)]) / states
