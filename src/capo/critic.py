"""The value fit: once a generation, whatever the number of experts."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Shaped

from capo.adam import descend, flatten
from capo.config import Config
from capo.networks import Critic


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
    start, restore = flatten(critic, opt_state)

    def step(flat, rows):
        def loss(theta):
            fitted, _ = restore((theta, flat[1]))
            error = value_loss(fitted, obs[rows], old_values[rows], targets[rows], config.clip)
            return config.vf_coef * error, error

        flat, _, error = descend(config, flat, loss, learning_rate)
        return flat, error

    rows = indices.reshape(-1, indices.shape[-1])
    last, errors = jax.lax.scan(step, start, rows)
    return *restore(last), jnp.mean(errors[-indices.shape[1] :])
