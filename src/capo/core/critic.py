"""The value fit, once per generation for any number of experts."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from capo.config import Config
from capo.core.experts import permutations
from capo.core.networks import Critic, Ensemble
from capo.core.optimizer import descend, flatten, init_optimizer


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


def init_critic_optimizer(config: Config, critic: Critic) -> optax.OptState:
    """Empty moments; stacked, with a counter each, for the critics of an ensemble."""
    if isinstance(critic.net, Ensemble):
        return jax.vmap(lambda net: init_optimizer(config, Critic(net)))(critic.net.each)
    return init_optimizer(config, critic)


def critic_minibatches(
    key: PRNGKeyArray, n: int, config: Config
) -> Int[Array, "*experts epochs minibatches size"]:
    """Rows of each minibatch: `n` samples shuffled anew in every epoch.

    Each of several critics draws n of the samples with replacement, and has its own shuffles.
    """
    epochs = config.critic_epochs or config.epochs

    def shuffles(key: PRNGKeyArray) -> Int[Array, "epochs minibatches size"]:
        return permutations(key, epochs, n).reshape(epochs, config.minibatches, -1)

    def resampled(key: PRNGKeyArray) -> Int[Array, "epochs minibatches size"]:
        draw, order = jax.random.split(key)
        return jax.random.randint(draw, (n,), 0, n)[shuffles(order)]

    if config.critic_experts == 1:
        return shuffles(key)
    return jax.vmap(resampled)(jax.random.split(key, config.critic_experts))


def fit_critic(
    critic: Critic,
    opt_state: optax.OptState,
    obs: Shaped[Array, "n *obs"],
    targets: Float[Array, " n"],
    indices: Int[Array, "*experts epochs minibatches size"],
    learning_rate: Float[Array, ""],
    config: Config,
) -> tuple[Critic, optax.OptState, Float[Array, ""]]:
    """E × M Adam steps on the clipped value loss; also returns the last epoch's mean loss.

    The critics of an ensemble are fitted side by side, each to its own minibatches of `indices`.
    """

    def fit(critic: Critic, opt_state: optax.OptState, indices):
        return _fit_one(critic, opt_state, obs, targets, indices, learning_rate, config)

    if not isinstance(critic.net, Ensemble):
        return fit(critic, opt_state, indices)
    fitted: Any
    fitted, opt_state, errors = jax.vmap(fit)(Critic(critic.net.each), opt_state, indices)
    return Critic(Ensemble(fitted.net)), opt_state, jnp.mean(errors)


def _fit_one(
    critic: Critic,
    opt_state: optax.OptState,
    obs: Shaped[Array, "n *obs"],
    targets: Float[Array, " n"],
    indices: Int[Array, "epochs minibatches size"],
    learning_rate: Float[Array, ""],
    config: Config,
) -> tuple[Critic, optax.OptState, Float[Array, ""]]:
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
