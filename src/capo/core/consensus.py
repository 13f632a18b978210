"""Aggregation of experts into one policy.

An aggregation is a pure function from the experts to a `Consensus`: parameters of the next policy
and, where the network cannot represent the result exactly, its distributions on the batch.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Num

from capo.core.family import Family
from capo.core.masking import Good, Weight, expert_mean, first
from capo.core.networks import Policy


class Experts(NamedTuple):
    """K trained replicates, stacked, with their distributions and surrogates on the batch."""

    policy: Policy
    opt_state: optax.OptState
    mean_iterate: Policy
    dist: Float[Array, "experts n params"]
    surrogate: Float[Array, " experts"]
    good: Good = None
    """Mask of the finite experts; a copy of the first finite one replaces each of the others."""
    weight: Weight = None
    """Weights in an average; None: equal ones."""


class Consensus(NamedTuple):
    """The aggregated policy. `dist` is the target of the distillation; None: the policy itself."""

    policy: Policy
    dist: Float[Array, "n params"] | None = None


def tree_mean(tree, good: Good = None, weight: Weight = None):
    """x_1 + mean_k w_k (x_k − x_1) over the leading axis, within the mask `good`.

    The mean of identical experts is exact for every K, which a plain sum is not.
    """

    def mean(x):
        start = x[first(good)]
        return start + expert_mean(x - start, good, weight).astype(x.dtype)

    return jax.tree.map(mean, tree)


def tree_pick(tree, index):
    """Entry `index` of the leading axis."""
    return jax.tree.map(lambda x: x[index], tree)


def best_of(experts: Experts) -> Int[Array, ""]:
    """The index of the expert with the highest clipped surrogate on the whole batch."""
    if experts.good is None:
        return jnp.argmax(experts.surrogate)
    return jnp.argmax(jnp.where(experts.good, experts.surrogate, -jnp.inf))


def identity(experts: Experts) -> Consensus:
    """The only expert."""
    return Consensus(tree_pick(experts.policy, 0))


def mean_iterate(experts: Experts) -> Consensus:
    """The mean of the only expert's end-of-epoch iterates (PPO-SWA)."""
    return Consensus(tree_pick(experts.mean_iterate, 0))


def best(experts: Experts) -> Consensus:
    """The expert with the highest clipped surrogate on the whole batch."""
    return Consensus(tree_pick(experts.policy, best_of(experts)))


def average(experts: Experts) -> Consensus:
    """θ̄ = (1/K) Σ_k w_k θ_k (CAPO-Avg)."""
    return Consensus(tree_mean(experts.policy, experts.good, experts.weight))


def logop(experts: Experts) -> Consensus:
    """Q ∝ Π_k π_k^(w_k/K), that is η̄ = (1/K) Σ_k w_k η_k in every state.

    The parameters returned with q are the average, with the state-independent log std of a
    Gaussian set to q's own: σ_q⁻² = (1/K) Σ_k w_k σ_k⁻². Distillation starts from them.
    """
    policy = tree_mean(experts.policy, experts.good, experts.weight)
    dist = policy.family.logop(experts.dist, experts.good, experts.weight)
    if policy.log_std is not None:
        policy = eqx.tree_at(lambda p: p.log_std, policy, dist[0, -policy.family.shared :])
    return Consensus(policy, dist)


def with_deviation(
    policy: Policy,
    dist: Float[Array, "n params"] | None,
    log_std: Float[Array, "experts dim"] | None,
) -> Consensus:
    """The consensus with the state-independent deviation of the first expert, if it has one.

    Experts on old batches see less of the newest actions, and their deviations shrink further.
    """
    if log_std is None:
        return Consensus(policy, dist)
    policy = eqx.tree_at(lambda p: p.log_std, policy, log_std[0])
    if dist is not None:
        shared = policy.family.constrain(jnp.concatenate([log_std[0], log_std[0]]))
        dist = dist.at[..., -log_std.shape[1] :].set(shared[-log_std.shape[1] :])
    return Consensus(policy, dist)


PENALTY = 1.0
"""λ of the KL-penalised surrogate J_λ that Theorem 1 is checked with."""


def theorem_metrics(
    family: Family,
    incumbent: Float[Array, "n params"],
    experts: Float[Array, "experts n params"],
    network: Float[Array, "n params"],
    actions: Num[Array, "n *event"],
    advantages: Float[Array, " n"],
    delta: float | Float[Array, ""],
    good: Good = None,
    weight: Weight = None,
) -> dict[str, Float[Array, ""]]:
    """Theorem 1 on this batch, for the analytic pool q and for the network that is used.

    With L_lin(η) = g_ηᵀ(η − η_t) and J_λ = L_lin − λ KL(π_t ‖ ·): `gain` is J_λ − mean_k J_λ(η_k).
    `violations` counts which of these fail beyond rounding: J_λ is at least the mean expert's, the
    KL is at most the mean expert's, the KL is at most δ if every expert's is. For q none can.
    `good` masks the experts, and their means have the weights of the pool.
    """
    start, etas = family.natural(incumbent), family.natural(experts)
    moment = jax.grad(lambda eta: jnp.sum(family.log_partition(eta)))(start)
    slope = advantages[:, None] * (family.sufficient(actions) - moment)
    terms = slope * (etas - start)
    kl = jax.vmap(lambda dist: jnp.mean(family.kl(incumbent, dist)))(experts)
    each = (kl, jnp.sum(terms, axis=-1), jnp.sum(jnp.abs(terms), axis=-1))
    mean_kl, linear, size = (jnp.mean(expert_mean(x, good, weight)) for x in each)
    mean_objective = linear - PENALTY * mean_kl
    # Rounding moves a policy by some ten ulps of its deviation, so its KL by twice that times √KL.
    ulp = jnp.finfo(kl.dtype).eps
    slack = ulp * (100 * mean_kl + 20 * jnp.sqrt(mean_kl))
    # η − η_t is a difference of rounded numbers, which dominates in the smallest updates.
    rounded = jnp.mean(jnp.sum(jnp.abs(slope * start), axis=-1))
    slack_objective = PENALTY * slack + ulp * (100 * size + rounded)

    def compare(eta, dist):
        own = jnp.mean(family.kl(incumbent, dist))
        gain = jnp.mean(jnp.sum(slope * (eta - start), axis=-1)) - PENALTY * own - mean_objective
        fits = jnp.all(kl <= delta, where=good)
        broken = [gain < -slack_objective, own > mean_kl + slack, fits & (own > delta + slack)]
        return own, gain, jnp.sum(jnp.stack(broken)).astype(float)

    middle = expert_mean(etas, good, weight)
    kl_q, gain_q, violations_q = compare(middle, family.from_natural(middle))
    _, gain, violations = compare(family.natural(network), network)
    return {
        "consensus/q_kl": kl_q,
        "consensus/q_gain": gain_q,
        "consensus/q_violations": violations_q,
        "consensus/gain": gain,
        "consensus/violations": violations,
    }
