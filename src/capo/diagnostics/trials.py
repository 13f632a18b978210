"""Trials: K updates from one policy on one batch, each with its own shuffles, at several depths."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from capo.core.batch import Batch
from capo.core.consensus import tree_pick
from capo.core.experts import shares
from capo.core.family import Family
from capo.core.fisher import Apply, Experience
from capo.core.networks import Critic, Policy
from capo.core.optimizer import init_optimizer
from capo.core.ppo import Rates, Samples, ppo_update
from capo.core.settings import PolicySettings
from capo.diagnostics.online import to_experience, unstack
from capo.envs.adapters import config_source, encode_observations
from capo.methods import settle
from capo.model import Model, check_fit
from capo.rollout import Collector, collect
from capo.samples import advantages_of, samples_of


class Trial(NamedTuple):
    """One batch, and the parameters after K updates on it."""

    family: Family
    apply: Apply | None
    before: Any
    data: Experience
    after: dict[int, list[Any]]
    """The parameters of the K updates, by depth in epochs."""


def trials(
    model: Model,
    epochs: Sequence[int],
    experts: int,
    batches: int,
    seed: int,
    learning_rate: float | None = None,
) -> Iterator[Trial]:
    """Collects fresh batches with the model and repeats the PPO update on each from its policy.

    The statistics of the normaliser are those of the model. Adam starts with the moments of an
    update on a further batch, which is discarded. The learning rate is the configuration's, without
    annealing.
    """
    config = settle(model.config).lone.replace(seed=seed, target_kl=None, diagnostics=0)
    rate = jnp.float32(learning_rate or config.learning_rate)
    rates = Rates(rate, jnp.float32(config.entropy_coef))
    settings = config.for_policy
    moments = init_optimizer(settings, model.policy)
    env = encode_observations(config_source(config).make(config.num_envs, seed), config)
    try:
        check_fit(model, env.observation_space, env.action_space, config.env_id)
        collector = Collector.init(env, config)
        for index in range(batches + 1):
            stats = {"obs_stats": model.obs_stats, "return_stats": model.return_stats}
            collector, batch, _ = collect(
                env, model.policy, collector._replace(**stats), config, index
            )
            samples, advantages = _prepare(settings, model.policy, model.critic, batch)
            key = jax.random.fold_in(jax.random.key(seed), index)
            repeated = jnp.broadcast_to(advantages, (experts, advantages.size))
            start = _replicate((model.policy, moments), experts)
            if index == 0:
                *_, end = _epochs(settings, key, start, samples, repeated, rates, config.epochs)
                moments = tree_pick(end[1], 0)
                continue
            path = _epochs(settings, key, start, samples, repeated, rates, max(epochs))
            after = {
                depth: unstack(jax.device_get(policies))
                for depth, (policies, _) in enumerate(path, 1)
                if depth in epochs
            }
            data = to_experience(batch, np.asarray(advantages))
            yield Trial(model.policy.family, None, model.policy, data, after)
    finally:
        env.close()


@jax.jit
def _prepare(config: PolicySettings, policy: Policy, critic: Critic, batch: Batch):
    """The samples of the experts, and the advantages in one axis."""
    advantages = advantages_of(config, critic, batch)[1]
    return samples_of(policy, batch, advantages, config)[0], advantages.reshape(-1)


def _replicate(tree: Any, count: int) -> Any:
    """Stacks `count` copies of a tree."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), tree)


def _epochs(settings, key, start, samples, advantages, rates, depth: int) -> Iterator[Any]:
    """Parameters and moments of the K experts after each epoch."""
    for index in range(depth):
        share = shares(jax.random.fold_in(key, index), advantages, 1, settings)
        start = _epoch(settings, *start, samples, share, rates)
        yield start


@jax.jit
def _epoch(
    config: PolicySettings, policies: Policy, states: optax.OptState, samples: Samples, share, rates
):
    """Parameters and moments of the K experts after one epoch."""

    def update(policy, state, own):
        out = ppo_update(policy, state, samples, own, rates, config)
        return out.policy, out.opt_state

    return jax.vmap(update)(policies, states, share)
