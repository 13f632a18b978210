"""Samples and advantages of a batch, and of the batches before it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capo.core.advantages import gae, gae_lambdas
from capo.core.batch import Batch
from capo.core.networks import Critic, Policy
from capo.core.ppo import Samples, clipped_surrogate, standardize
from capo.core.reuse import Past, effective_size, importance_weights, remember, with_newest
from capo.core.settings import AdvantageSettings, PolicySettings, PPOSettings


class Earlier(NamedTuple):
    """The last batches, the newest first, in one axis."""

    samples: Samples
    advantages: Float[Array, " n"]
    sizes: Float[Array, " batches"]
    """Effective sizes."""
    past: Past
    """The past of the next generation."""


def last_batches(
    config: AdvantageSettings, policy: Policy, critic: Critic, past: Past, batch: Batch
) -> Earlier:
    """The newest batch and those of the past.

    The advantages are those of the incumbent, with its critic and V-trace's capped traces.
    """
    batches = with_newest(past, batch)
    obs, actions = (x.reshape(-1, *x.shape[3:]) for x in (batches.obs, batches.actions))
    dist = policy(obs)
    log_prob = policy.family.log_prob(dist, actions).reshape(batches.rewards.shape)
    weights, behaviour = importance_weights(past, log_prob)
    traces = jnp.minimum(weights, 1.0)
    own = jax.vmap(lambda b, c: advantages_of(config, critic, b, c)[1])(batches, traces)
    sizes = effective_size(weights.reshape(len(weights), -1))
    samples = Samples(
        obs=obs,
        actions=actions,
        dist=dist,
        log_prob=log_prob.reshape(-1),
        importance=weights.reshape(-1),
    )
    next_past = remember(past, batches, behaviour)
    return Earlier(samples=samples, advantages=own.reshape(-1), sizes=sizes, past=next_past)


def advantages_of(
    config: AdvantageSettings,
    critic: Critic,
    batch: Batch,
    traces: Float[Array, "steps envs"] | None = None,
    lam: Float[Array, ""] | None = None,
) -> tuple[Float[Array, "steps envs"], Float[Array, "steps envs"]]:
    """V(s) and the advantages, with another λ than the configuration's if it is given."""
    ends = (batch.terminated, batch.truncated)
    if config.truncation == "terminate":
        ends = (batch.terminated | batch.truncated, batch.truncated)
    values, next_values = critic(batch.obs), critic(batch.next_obs)

    decay = config.gae_lambda if lam is None else lam
    return values, gae(batch.rewards, values, next_values, *ends, config.gamma, decay, traces)


def own_advantages(
    config: PolicySettings,
    width: int,
    critic: Critic,
    batch: Batch,
    advantages: Float[Array, "steps envs"],
) -> Float[Array, "experts n"]:
    """Each expert's own advantages, time and environments in one axis."""
    if config.diversity != "gae-lambda":
        return jnp.broadcast_to(advantages.reshape(-1), (width, advantages.size))
    lambdas = gae_lambdas(config.gae_lambda, width)
    each = jax.vmap(lambda lam: advantages_of(config, critic, batch, lam=lam)[1])(lambdas)
    return each.reshape(width, -1)


def samples_of(
    policy: Policy, batch: Batch, advantages: Float[Array, "steps envs"], config: PPOSettings
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
