"""The value fit: once a generation, whatever the number of experts."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Shaped

from capo.config import Config
from capo.networks import Critic
from capo.ppo import apply_step, optimizer


def value_loss(
    critic: Critic,
    obs: Shaped[Array, "n *obs"],
    old_values: Float[Array, " n"],
    targets: Float[Array, " n"],
    clip: float,
) -> Float[Array, ""]:
    """½ E[max((V − R)², (V_old + clip(V − V_old, ±ε) − R)²)]."""
    values = critic(obs)
    near = old_values + jnp.clip(values - old_values, -clip, clip)
    return 0.5 * jnp.mean(jnp.maximum((values - targets) ** 2, (near - targets) ** 2))


def fit_critic(
    critic: Critic,
    opt_state: optax.OptState,
    obs: Shaped[Array, "n *obs"],
    targets: Float[Array, " n"],
    indices: Int[Array, "epochs minibatches size"],
    learning_rate: Float[Array, ""],
    config: Config,
) -> tuple[Critic, optax.OptState, Float[Array, ""]]:
    """E × M Adam steps on the clipped value loss; also returns the last epoch's mean loss."""
    old_values = critic(obs)
    adam = optimizer(config)

    def loss(critic, rows):
        error = value_loss(critic, obs[rows], old_values[rows], targets[rows], config.clip)
        return config.vf_coef * error, error

    def step(carry, rows):
        critic, opt_state = carry
        grads, error = jax.grad(loss, has_aux=True)(critic, rows)
        updates, opt_state = adam.update(grads, opt_state)
        return (apply_step(critic, updates, learning_rate), opt_state), error

    rows = indices.reshape(-1, indices.shape[-1])
    (critic, opt_state), errors = jax.lax.scan(step, (critic, opt_state), rows)
    return critic, opt_state, jnp.mean(errors[-indices.shape[1] :])
