"""What one update of a run did with its KL: the taken step, the experts, their consensus."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Shaped

from capo.config import Config
from capo.consensus import tree_pick
from capo.families import Family
from capo.fisher import Experience, Geometry
from capo.networks import Policy
from capo.ppo import standardize
from capo.rollout import Batch

EVENLY = 10
"""How many generations are diagnosed unless asked otherwise, besides the last."""


def diagnosed(config: Config) -> frozenset[int]:
    """The generations that get a diagnosis: every N-th, or ten evenly spaced, and the last."""
    count, every = config.generations, config.diagnostics
    if every == 0:
        return frozenset()
    spaced = (
        range(every - 1, count, every) if every else (i * count // EVENLY for i in range(EVENLY))
    )
    return frozenset([*spaced, count - 1])


def experience(batch: Batch, advantages: Float[Any, " n"]) -> Experience:
    """The batch in one axis, with standardised advantages: what g is the gradient over."""
    obs, actions = (x.reshape(-1, *x.shape[2:]) for x in (batch.obs, batch.actions))
    return Experience(obs, actions, standardize(np.asarray(advantages, np.float64)))


def diagnose(
    incumbent: Policy, experts: Policy, taken: Policy, data: Experience, **options: Any
) -> dict[str, float]:
    """The decomposition of the step taken, as `fisher/…`, and of K > 1 experts, as `consensus/…`.

    `experts` are stacked. `options` are those of `krylov.natural_gradient`.
    """
    geometry = Geometry(incumbent.family, incumbent, data, **options)
    split = geometry.decompose(taken)
    row = {f"fisher/{name}": float(value) for name, value in split._asdict().items()}
    policies = unstack(experts)
    if len(policies) == 1:
        return row
    updates = np.stack([geometry.flat(policy) for policy in policies]) - geometry.theta
    c, inner = geometry.project(updates)
    with np.errstate(divide="ignore", invalid="ignore"):  # experts may all have stood still
        found = agreement(c, inner)
        found["signal_kept"] = float(split.c / np.mean(c))
        found["waste_ratio"] = float(split.waste / np.float64(found["expert_waste"]))
        found |= pool(geometry, incumbent, policies)
    return row | {f"consensus/{name}": value for name, value in found.items()}


def unstack(experts: Policy) -> list[Policy]:
    """The policies of a stack, one by one."""
    width = jax.tree.leaves(experts)[0].shape[0]
    return [tree_pick(experts, k) for k in range(width)]


def agreement(c: Float[np.ndarray, " k"], inner: Float[np.ndarray, "k k"]) -> dict[str, float]:
    """How alike K updates are, from their signals c_k and inner products ⟨Δ_i, Δ_j⟩_F.

    ρ is the mean over pairs of ⟨u_i, u_j⟩_F / (‖u_i‖_F ‖u_j‖_F), for u the signals c_k d̂, the
    wastes ε_k and the updates. For the average of wastes of equal size, ‖ε̄‖² / mean ‖ε_k‖² is
    1/K + (1 − 1/K) ρ_ε: what `waste_ratio_predicted` says.
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
    """1/K + (1 − 1/K) ρ_ε."""
    return 1 / width + (1 - 1 / width) * rho_waste


def _mean_cosine(gram: Float[np.ndarray, "k k"]) -> float:
    """The mean off-diagonal entry of a Gram matrix of unit vectors."""
    sizes = np.sqrt(np.maximum(np.diag(gram), 0.0))
    pairs = np.triu_indices(len(gram), 1)
    return float(np.mean((gram / np.outer(sizes, sizes))[pairs]))


def pool(geometry: Geometry, incumbent: Policy, experts: list[Policy]) -> dict[str, float]:
    """The same split for the analytic pool q, η̄ = (1/K) Σ η_k, which has no parameters.

    It lives where the distributions do: Δη in place of Δ, ∇²A(η_t) averaged over the batch in place
    of F, and the image of d̂ there, J d̂. The experts' waste in the ratio is measured there too.
    """
    family, obs = incumbent.family, geometry.experience.obs
    unit = geometry.natural.x / np.float64(geometry.natural.norm)
    with jax.enable_x64(True):
        start, axis = _along(incumbent, obs, unit)
        etas = [np.asarray(_natural(policy, obs)) for policy in experts]
        moves = [eta - start for eta in (np.mean(etas, axis=0), *etas)]
        pairs = np.array([_pairing(family, start, move, axis) for move in moves])
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
    """η over the batch."""
    policy = jax.tree.map(lambda x: x.astype(float), policy)
    return policy.family.natural(policy(obs))


@jax.jit
def _along(policy: Policy, obs: Shaped[Array, "n *obs"], unit: Float[Array, " p"]):
    """η over the batch, and its derivative along a direction of the parameters."""
    flat, unravel = ravel_pytree(jax.tree.map(lambda x: x.astype(float), policy))
    return jax.jvp(lambda theta: policy.family.natural(unravel(theta)(obs)), (flat,), (unit,))


@functools.partial(jax.jit, static_argnums=0)
def _pairing(family: Family, start, move, axis):
    """⟨Δη, Δη⟩ and ⟨Δη, axis⟩ under E_s ∇²A(η_t)."""
    slope = jax.grad(lambda eta: jnp.sum(family.log_partition(eta)))
    _, image = jax.jvp(slope, (start,), (move,))
    states = start.shape[0]
    return jnp.stack([jnp.vdot(move, image), jnp.vdot(axis, image)]) / states
