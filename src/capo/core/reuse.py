"""Reuse of the last batches: their importance weights and effective sample sizes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from capo.core.batch import Batch

MAX_IMPORTANCE = 10.0
"""Limit of an importance weight."""


class Past(NamedTuple):
    """The batches before the newest, stacked, the latest first."""

    batches: Batch
    """Batches with one more leading axis."""
    log_prob: Float[Array, "past steps envs"]
    """log π_b(a|s) under the policy that drew the actions."""
    stored: Int[Array, ""]
    """Number of batches that were ever stored."""


def init_past(batch: Batch, size: int) -> Past:
    """Room for `size` batches of this shape, with the types that they have on a device."""

    def room(x):
        return jnp.zeros((size, *x.shape), jax.dtypes.canonicalize_dtype(x.dtype))

    batches = jax.tree.map(room, batch)
    log_prob = jnp.zeros((size, *batch.rewards.shape))
    return Past(batches=batches, log_prob=log_prob, stored=jnp.zeros((), jnp.int32))


def with_newest(past: Past, batch: Batch) -> Batch:
    """The newest batch and those before it, stacked. Before the first, all are the newest."""

    def stack(old, new):
        old = jnp.where(past.stored == 0, new[None], old)
        return jnp.concatenate([new[None], old])

    return jax.tree.map(stack, past.batches, batch)


def importance_weights(
    past: Past, log_prob: Float[Array, "batches steps envs"]
) -> tuple[Float[Array, "batches steps envs"], Float[Array, "batches steps envs"]]:
    """W = min(π_t / π_b, 10) with log π_t of all batches given, and log π_b; w = 1 for the newest.

    Before the first batch all batches are the newest, so their weights are 1.
    """
    old = jnp.where(past.stored == 0, log_prob[1:], past.log_prob)
    behaviour = jnp.concatenate([log_prob[:1], old])
    return jnp.minimum(jnp.exp(log_prob - behaviour), MAX_IMPORTANCE), behaviour


def remember(past: Past, batches: Batch, behaviour: Float[Array, "batches steps envs"]) -> Past:
    """The next generation's past: all batches but the oldest."""
    kept, log_prob = jax.tree.map(lambda x: x[:-1], (batches, behaviour))
    return Past(batches=kept, log_prob=log_prob, stored=past.stored + 1)


def effective_size(weights: Float[Array, "batches n"]) -> Float[Array, " batches"]:
    """Effective share (Σ w)² / (n Σ w²) of each batch's samples; 1 for equal weights."""
    return jnp.mean(weights, axis=1) ** 2 / jnp.mean(weights**2, axis=1)
