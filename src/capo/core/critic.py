"""The value fit, once per generation for any number of experts."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from capo.core.experts import permutations
from capo.core.networks import Critic
from capo.core.optimizer import descend, flatten
from capo.core.settings import PPOSettings, ValueSettings


def value_loss(
    critic: Critic,
    obs: Shaped[Array, "n *obs"],
    old_values: Float[Array, " n"],
    targets: Float[Array, " n"],
    clip: float | Float[Array, ""],
) -> Float[Array, ""]:
    """½ E[max((V − R)², (V_old + clip(V − V_old, ±ε) − R)²)]."""
    values = critic(obs)
    near = old_values + jnp.clip(values - old_values, -clip, clip)
    return 0.5 * jnp.mean(jnp.maximum((values - targets) ** 2, (near - targets) ** 2))


def critic_minibatches(
    key: PRNGKeyArray, n: int, config: PPOSettings, batches: int = 1
) -> Int[Array, "epochs minibatches size"]:
    """Rows of each minibatch: `n` of all batches' samples, shuffled anew each epoch."""
    order = permutations(key, config.epochs, n * batches)[:, :n]
    return order.reshape(config.epochs, config.minibatches, -1)


def fit_critic(
    critic: Critic,
    opt_state: optax.OptState,
    obs: Shaped[Array, "n *obs"],
    targets: Float[Array, " n"],
    indices: Int[Array, "epochs minibatches size"],
    learning_rate: Float[Array, ""],
    config: ValueSettings,
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
