"""The outer step: a step size for whole updates."""

import jax
from jaxtyping import Array, Float

from capo.core.networks import Policy


def outer_step(incumbent: Policy, candidate: Policy, rate: float | Float[Array, ""]) -> Policy:
    """θ_t + η (θ − θ_t)."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), incumbent, candidate)
