"""What is finite, and means over what is: an expert that is not must not spoil the others."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Shaped

Good = Bool[Array, " experts"] | None
"""Which experts count; None: all of them."""


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number of a tree is finite."""
    return jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]).all()


def finite_rows(tree: Any) -> Bool[Array, " experts"]:
    """The same for each entry of the leading axis."""
    return jax.vmap(all_finite)(tree)


def first(good: Good) -> Any:
    """The index of the first expert that counts."""
    return 0 if good is None else jnp.argmax(good)


def mask(good: Good, x: Shaped[Any, "experts *rest"]) -> Any:
    """`good` with the axes of `x`, for the `where` of a sum or mean over experts."""
    return None if good is None else good.reshape(-1, *[1] * (x.ndim - 1))


def tree_where(condition: Any, yes: Any, no: Any) -> Any:
    """One of two trees; what is in the other does not show, not even NaN."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def mend(tree: Any, good: Bool[Array, " experts"]) -> Any:
    """A stack in which the first good entry stands in for those that are not.

    Finite, unless nothing is good.
    """
    return jax.tree.map(lambda x: jnp.where(mask(good, x), x, x[first(good)]), tree)
