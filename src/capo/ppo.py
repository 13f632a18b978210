"""One PPO expert: E epochs of M clipped minibatch steps, as one scan."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Num, Shaped

from capo.config import Config
from capo.finite import tree_where
from capo.networks import Policy


class Samples(NamedTuple):
    """The batch as the experts see it, time and environments in one axis."""

    obs: Shaped[Array, "n *obs"]
    actions: Num[Array, "n *event"]
    dist: Float[Array, "n params"]
    log_prob: Float[Array, " n"]


class Share(NamedTuple):
    """What makes an expert itself: its order of the samples, its advantages, its weights."""

    indices: Int[Array, "epochs minibatches size"]
    advantages: Float[Array, " n"]
    weights: Float[Array, " n"]


class Expert(NamedTuple):
    """What an update rule returns: the last iterate, the mean of its end-of-epoch iterates."""

    policy: Policy
    opt_state: optax.OptState
    mean_iterate: Policy
    info: dict[str, Float[Array, ""]]


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


def apply_step(params, updates, learning_rate: Float[Array, ""]):
    """θ ← θ − learning_rate · update."""
    return jax.tree.map(lambda p, u: p - learning_rate * u, params, updates)


def standardize(x: Float[Any, " n"]) -> Float[Any, " n"]:
    """(x − mean) / std, on the host as on a device."""
    return (x - x.mean()) / (x.std() + 1e-8)


def clipped_surrogate(
    ratio: Float[Array, " n"], advantages: Float[Array, " n"], clip: float
) -> Float[Array, " n"]:
    """min(ρ A, clip(ρ, 1 − ε, 1 + ε) A), sample by sample."""
    return jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages)


def policy_loss(policy: Policy, samples: Samples, share: Share, rows: Int[Array, " m"], c: Config):
    """−E[w · min(ρ A, clip(ρ) A)] − entropy_coef · H on one minibatch, and what to report of it."""
    dist = policy(samples.obs[rows])
    log_ratio = policy.family.log_prob(dist, samples.actions[rows]) - samples.log_prob[rows]
    ratio, advantages = jnp.exp(log_ratio), share.advantages[rows]
    if c.advantage_norm == "minibatch":
        advantages = standardize(advantages)
    gain = jnp.mean(share.weights[rows] * clipped_surrogate(ratio, advantages, c.clip))
    entropy = jnp.mean(policy.family.entropy(dist))
    info = {
        "policy_loss": -gain,
        "approx_kl": jnp.mean(jnp.expm1(log_ratio) - log_ratio),
        "clipfrac": jnp.mean(jnp.abs(ratio - 1) > c.clip),
    }
    return -gain - c.entropy_coef * entropy, info


def ppo_update(
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    learning_rate: Float[Array, ""],
    config: Config,
) -> Expert:
    """Runs the E × M steps of one expert.

    With `target_kl`, an expert takes no further epochs once KL(π_t ‖ π) over the batch exceeds it;
    the mean iterate counts the epochs that ran.
    """
    adam = optimizer(config)
    slope = jax.grad(policy_loss, has_aux=True)

    def step(carry, rows):
        policy, opt_state = carry
        grads, info = slope(policy, samples, share, rows, config)
        info["grad_norm"] = optax.tree.norm(grads)
        updates, opt_state = adam.update(grads, opt_state)
        return (apply_step(policy, updates, learning_rate), opt_state), info

    def epoch(carry, rows):
        before, total, active = carry
        after, info = jax.lax.scan(step, before, rows)
        if config.target_kl:
            after = tree_where(active, after, before)
        total = jax.tree.map(lambda s, p: s + active * p, total, after[0])
        ran = active
        if config.target_kl:
            kl = jnp.mean(policy.family.kl(samples.dist, after[0](samples.obs)))
            active = active & (kl <= config.target_kl)
        return (after, total, active), (jax.tree.map(jnp.mean, info), ran)

    start = ((policy, opt_state), jax.tree.map(jnp.zeros_like, policy), jnp.array(True))
    (last, total, _), (info, ran) = jax.lax.scan(epoch, start, share.indices)
    epochs = jnp.sum(ran)
    info = {name: value[epochs - 1] for name, value in info.items()}
    mean = jax.tree.map(lambda s: s / epochs, total)
    return Expert(*last, mean, {**info, "epochs_run": epochs.astype(float)})
