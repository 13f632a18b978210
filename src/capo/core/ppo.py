"""One PPO expert: E epochs of M clipped minibatch steps, as one scan."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Num, Shaped

from capo.core.family import namespace
from capo.core.masking import tree_where
from capo.core.networks import Policy
from capo.core.optimizer import Flat, descend, flatten
from capo.core.settings import PolicySettings


class Samples(NamedTuple):
    """The batch as the experts see it, time and environments in one axis."""

    obs: Shaped[Array, "n *obs"]
    actions: Num[Array, "n *event"]
    dist: Float[Array, "n params"]
    log_prob: Float[Array, " n"]
    importance: Float[Array, " n"] | None = None
    """w = π_t / π_b for samples of earlier policies π_b; None: all are of π_t."""


class Rates(NamedTuple):
    """The numbers of an update that a schedule may change from generation to generation."""

    learning_rate: Float[Any, ""]
    entropy_coef: Float[Any, ""]


class Share(NamedTuple):
    """The part of the data that differs between experts: order, advantages and weights."""

    indices: Int[Array, "epochs minibatches size"]
    advantages: Float[Array, " n"]
    weights: Float[Array, " n"]


class Expert(NamedTuple):
    """Result of an update rule: the last iterate and the mean of the end-of-epoch iterates."""

    policy: Policy
    opt_state: optax.OptState
    mean_iterate: Policy
    info: dict[str, Float[Array, ""]]


def standardize(x: Float[Any, " n"], floor: float | Float[Array, ""] = 0.0) -> Float[Any, " n"]:
    """(x − mean) / max(std, floor), for NumPy and JAX arrays."""
    return (x - x.mean()) / (namespace(x).maximum(x.std(), floor) + 1e-8)


def clipped_surrogate(
    ratio: Float[Array, " n"], advantages: Float[Array, " n"], clip: float | Float[Array, "*n"]
) -> Float[Array, " n"]:
    """min(ρ A, clip(ρ, 1 − ε, 1 + ε) A), sample by sample."""
    return jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages)


class Minibatch(NamedTuple):
    """Samples of one step. `rows` index the observations, which may be large."""

    rows: Int[Array, " m"]
    actions: Num[Array, "m *event"]
    log_prob: Float[Array, " m"]
    advantages: Float[Array, " m"]
    weights: Float[Array, " m"]
    clip: Float[Array, " m"] | None = None
    """Clip thresholds; None: that of the configuration."""


def minibatches(
    samples: Samples, share: Share, rows: Int[Array, "minibatches m"], config: PolicySettings
) -> Minibatch:
    """The minibatches of an epoch, stacked: one gather is faster than one per step.

    A sample with importance w has the clip threshold ε/w for π/π_t, so that π/π_b is clipped to
    within ε of π_t/π_b.
    """
    advantages = share.advantages[rows]
    if config.advantage_norm == "minibatch":
        advantages = jax.vmap(lambda x: standardize(x, config.advantage_floor))(advantages)
    return Minibatch(
        rows=rows,
        actions=samples.actions[rows],
        log_prob=samples.log_prob[rows],
        advantages=advantages,
        weights=share.weights[rows],
        clip=None if samples.importance is None else config.clip / samples.importance[rows],
    )


def policy_loss(
    policy: Policy,
    obs: Shaped[Array, "m *obs"],
    batch: Minibatch,
    entropy_coef: Float[Any, ""],
    config: PolicySettings,
):
    """−E[w · min(ρ A, clip(ρ) A)] − entropy_coef · H on one minibatch, and its metrics."""
    dist = policy(obs)
    log_ratio = policy.family.log_prob(dist, batch.actions) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    clip = config.clip if batch.clip is None else batch.clip
    gain = jnp.mean(batch.weights * clipped_surrogate(ratio, batch.advantages, clip))
    entropy = jnp.mean(policy.family.entropy(dist))
    info = {
        "policy_loss": -gain,
        "approx_kl": jnp.mean(jnp.expm1(log_ratio) - log_ratio),
        "clipfrac": jnp.mean(jnp.abs(ratio - 1) > clip),
    }
    return -gain - entropy_coef * entropy, info


def ppo_update(
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    rates: Rates,
    config: PolicySettings,
) -> Expert:
    """Runs the E × M steps of one expert.

    With `target_kl`, the epochs stop once KL(π_t ‖ π) over the batch exceeds it; the mean iterate
    averages the epochs that ran.
    """
    start, restore = flatten(policy, opt_state)
    limit = config.target_kl

    def network(flat: Flat) -> Policy:
        return restore(flat)[0]

    def step(flat, batch):
        def loss(theta):
            student = network((theta, flat[1]))
            obs = samples.obs[batch.rows]
            return policy_loss(student, obs, batch, rates.entropy_coef, config)

        flat, norm, info = descend(config, flat, loss, rates.learning_rate)
        return flat, {**info, "grad_norm": norm}

    def epoch(carry, rows):
        before, total, active = carry
        after, info = jax.lax.scan(step, before, minibatches(samples, share, rows, config))
        if limit is not None:
            after = tree_where(active, after, before)
        total, ran = total + active * after[0], active
        if limit is not None:
            kl = jnp.mean(policy.family.kl(samples.dist, network(after)(samples.obs)))
            active = active & (kl <= limit)
        return (after, total, active), (jax.tree.map(jnp.mean, info), ran)

    begin = (start, jnp.zeros_like(start[0]), jnp.array(True))
    (last, total, _), (info, ran) = jax.lax.scan(epoch, begin, share.indices)
    epochs = jnp.sum(ran)
    info = {name: value[epochs - 1] for name, value in info.items()}
    mean = network((total / epochs, last[1]))
    trained, moments = restore(last)
    return Expert(
        policy=trained,
        opt_state=moments,
        mean_iterate=mean,
        info={**info, "epochs_run": epochs.astype(float)},
    )
