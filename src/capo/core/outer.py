"""The outer step: a step size and Nesterov momentum for whole updates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from capo.config import Config
from capo.core.networks import Policy

MAX_CUTS = 3
"""Consecutive cuts by the line search after which the momentum is cleared."""


class Outer(NamedTuple):
    """Momentum of the updates, and how often in a row the line search cut them."""

    momentum: Policy
    cuts: Int[Array, ""]


def init_outer(policy: Policy) -> Outer:
    """No momentum."""
    return Outer(jax.tree.map(jnp.zeros_like, policy), jnp.zeros((), jnp.int32))


def outer_step(
    incumbent: Policy, candidate: Policy, outer: Outer | None, config: Config
) -> tuple[Policy, Outer | None]:
    """θ_t + η(Δ + μm) and m ← μm + Δ, with Δ = θ − θ_t. η = 1 without momentum changes nothing."""
    if config.outer_lr == 1.0 and outer is None:
        return candidate, None
    update = jax.tree.map(jnp.subtract, candidate, incumbent)
    if outer is not None:
        old = outer.momentum
        update = jax.tree.map(lambda d, m: config.outer_momentum * m + d, update, old)
        outer = outer._replace(momentum=update)
    policy = jax.tree.map(lambda theta, d: theta + config.outer_lr * d, incumbent, update)
    return policy, outer


def count_cuts(outer: Outer, scale: Float[Array, ""]) -> Outer:
    """Clears the momentum after `MAX_CUTS` consecutive updates that were cut, at `scale` < 1."""
    cuts = jnp.where(scale < 1.0, outer.cuts + 1, 0)
    full = cuts >= MAX_CUTS
    momentum = jax.tree.map(lambda m: jnp.where(full, 0.0, m), outer.momentum)
    return Outer(momentum, jnp.where(full, 0, cuts))
