"""Adam after gradient clipping, on all parameters as one vector.

The cost of a small network on a CPU is the number of operations, not their size: Adam takes a
handful on one vector, and dozens leaf by leaf, which is as slow as the gradient.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from capo.core.settings import AdamSettings

Flat = tuple[Float[Array, " p"], optax.OptState]
"""Parameters and moments, each a vector."""


def optimizer(config: AdamSettings) -> optax.GradientTransformation:
    """Adam after clipping by the global norm; the caller multiplies by −learning rate.

    The schedule counts generations; Adam's own counter counts its steps.
    """
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=config.adam_eps)
    )


def init_optimizer(config: AdamSettings, params: Any) -> optax.OptState:
    """Empty moments for `params`."""
    return optimizer(config).init(params)


def empty_moments(state: optax.OptState) -> optax.OptState:
    """The state with its step counter and zero moments.

    Adam's bias correction is then too small, so its next steps are several times too long.
    """
    return jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jnp.integer) else 0 * x, state)


def flatten(
    params: Any, opt_state: optax.OptState
) -> tuple[Flat, Callable[[Flat], tuple[Any, optax.OptState]]]:
    """Parameters and moments as vectors, and the function that restores their structure."""
    structure = jax.tree.structure(params)
    theta, unravel = ravel_pytree(params)

    def moment(x: Any) -> bool:
        return jax.tree.structure(x) == structure

    def ravel(x: Any) -> Any:
        return ravel_pytree(x)[0] if moment(x) else x

    def restore(flat: Flat) -> tuple[Any, optax.OptState]:
        theta, state = flat
        back = jax.tree.map(
            lambda was, now: unravel(now) if moment(was) else now, opt_state, state, is_leaf=moment
        )
        return unravel(theta), back

    return (theta, jax.tree.map(ravel, opt_state, is_leaf=moment)), restore


def descend(
    config: AdamSettings, flat: Flat, loss: Callable, learning_rate: Float[Array, ""]
) -> tuple[Flat, Float[Array, ""], Any]:
    """θ ← θ − learning_rate · Adam(∇loss(θ)); also ‖∇loss‖ and the auxiliary output of the loss."""
    theta, state = flat
    gradient, info = jax.grad(loss, has_aux=True)(theta)
    update: Any
    update, state = optimizer(config).update(gradient, state)
    return (theta - learning_rate * update, state), jnp.linalg.norm(gradient), info
