"""Samples and advantages of a batch, and of the batches before it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capo.config import Config
from capo.core.advantages import gae, gae_lambdas
from capo.core.networks import Critic, Policy
from capo.core.ppo import Samples, clipped_surrogate, standardize
from capo.core.reuse import Past, effective_size, importance_weights, remember, with_newest
from capo.methods import Settled
from capo.rollout import Batch


def last_batches(config: Settled, policy: Policy, critic: Critic, past: Past, batch: Batch):
    """The samples of all batches, the experts' advantages, the effective sizes; the next past.

    The advantages are those of the incumbent, with its critic and V-trace's capped traces.
    """
    batches = with_newest(past, batch)
    obs, actions = (x.reshape(-1, *x.shape[3:]) for x in (batches.obs, batches.actions))
    dist = policy(obs)
    log_prob = policy.family.log_prob(dist, actions).reshape(batches.rewards.shape)
    weights, behaviour = importance_weights(past, log_prob)
    traces = jnp.minimum(weights, 1.0)
    own = jax.vmap(lambda b, c: advantages_of(config, critic, b, c)[2])(batches, traces)
    own = jnp.moveaxis(own, 0, 1).reshape(own.shape[1], -1)
    sizes = effective_size(weights.reshape(len(weights), -1))
    pool = Samples(obs, actions, dist, log_prob.reshape(-1), weights.reshape(-1))
    return (pool, own, sizes), remember(past, batches, behaviour)


def advantages_of(
    config: Settled,
    critic: Critic,
    batch: Batch,
    traces: Float[Array, "steps envs"] | None = None,
):
    """V(s), the advantages, and each expert's own advantages in a flat batch."""
    ends = (batch.terminated, batch.truncated)
    if config.truncation == "terminate":
        ends = (batch.terminated | batch.truncated, batch.truncated)
    values, next_values = critic(batch.obs), critic(batch.next_obs)

    def with_lambda(lam):
        return gae(batch.rewards, values, next_values, *ends, config.gamma, lam, traces)

    advantages = with_lambda(config.gae_lambda)
    width = config.method.width(config)
    own = jnp.broadcast_to(advantages, (width, *advantages.shape))
    if config.diversity == "gae-lambda":
        own = jax.vmap(with_lambda)(gae_lambdas(config.gae_lambda, width))
    return values, advantages, own.reshape(width, -1)


def samples_of(
    policy: Policy, batch: Batch, advantages: Float[Array, "steps envs"], config: Config
):
    """The flat batch with the incumbent's distributions, and dist ↦ clipped surrogate on it."""
    obs, actions = (x.reshape(-1, *x.shape[2:]) for x in (batch.obs, batch.actions))
    dist = policy(obs)
    log_prob = policy.family.log_prob(dist, actions)
    gains = standardize(advantages.reshape(-1))

    def surrogate(other: Float[Array, "n params"]) -> Float[Array, ""]:
        ratio = jnp.exp(policy.family.log_prob(other, actions) - log_prob)
        return jnp.mean(clipped_surrogate(ratio, gains, config.clip))

    return Samples(obs, actions, dist, log_prob), surrogate
