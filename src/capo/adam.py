"""Adam behind a norm limit, on all parameters as one vector.

What a small network costs on a CPU is the number of operations rather than their size: flat, a step
of Adam is a handful of them, leaf by leaf it is dozens and takes as long as the gradient.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from capo.config import Config

Flat = tuple[Float[Array, " p"], optax.OptState]
"""Parameters and moments, each a vector."""


def optimizer(config: Config) -> optax.GradientTransformation:
    """Adam behind a norm limit; the caller multiplies by −learning rate.

    The schedule counts generations, Adam's own counter counts its steps, and the two are never
    mixed: advancing Adam's counter over empty moments would blow up the next steps.
    """
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=config.adam_eps)
    )


def init_optimizer(config: Config, params: Any) -> optax.OptState:
    """Empty moments for `params`."""
    return optimizer(config).init(params)


def flatten(
    params: Any, opt_state: optax.OptState
) -> tuple[Flat, Callable[[Flat], tuple[Any, optax.OptState]]]:
    """Parameters and moments as vectors, and the way back to the structure they had."""
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
    config: Config, flat: Flat, loss: Callable, learning_rate: Float[Array, ""]
) -> tuple[Flat, Float[Array, ""], Any]:
    """θ ← θ − learning_rate · Adam(∇loss(θ)); also ‖∇loss‖ and what the loss returns beside."""
    theta, state = flat
    gradient, info = jax.grad(loss, has_aux=True)(theta)
    update: Any
    update, state = optimizer(config).update(gradient, state)
    return (theta - learning_rate * update, state), jnp.linalg.norm(gradient), info
