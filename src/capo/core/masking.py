"""Masks for non-finite experts."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

Good = Bool[Array, " experts"] | None
"""Mask of the experts that are finite; None: all of them are."""
Weight = Float[Array, " experts"] | None
"""Weights of the experts, with mean 1 inside the mask; None: all are 1."""


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number of a tree is finite."""
    return jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]).all()


def finite_rows(tree: Any) -> Bool[Array, " experts"]:
    """Whether every number is finite, for each entry of the leading axis."""
    return jax.vmap(all_finite)(tree)


def first(good: Good) -> Any:
    """The index of the first finite expert."""
    return 0 if good is None else jnp.argmax(good)


def mask(good: Good, x: Shaped[Any, "experts *rest"]) -> Any:
    """`good` with the axes of `x`, for the `where` of a sum or mean over experts."""
    return None if good is None else good.reshape(-1, *[1] * (x.ndim - 1))


def expert_mean(
    x: Shaped[Any, "experts *rest"], good: Good = None, weight: Weight = None
) -> Shaped[Any, "*rest"]:
    """(1/K) Σ_k w_k x_k over the experts inside the mask."""
    if weight is not None:
        x = x * weight.reshape(-1, *[1] * (x.ndim - 1))
    return jnp.mean(x, axis=0, where=mask(good, x))


def tree_where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` or `no`, leaf by leaf; NaN in the tree that is not chosen has no effect."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def replace_nonfinite(tree: Any, good: Bool[Array, " experts"]) -> Any:
    """Replaces the entries outside the mask by the first entry inside it.

    The result is finite if any entry is.
    """
    return jax.tree.map(lambda x: jnp.where(mask(good, x), x, x[first(good)]), tree)
