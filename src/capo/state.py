"""The state of a run between two generations."""

import dataclasses
import functools
import math
from typing import NamedTuple

import gymnasium as gym
import jax
import optax
from jaxtyping import PRNGKeyArray

from capo.config import Config
from capo.core.batch import Batch
from capo.core.encoding import Encoder
from capo.core.networks import Critic, Policy, to_host
from capo.core.normalize import RunningStats
from capo.core.optimizer import init_optimizer
from capo.core.reuse import Past, init_past
from capo.errors import UsageError, name_of
from capo.methods import Settled
from capo.model import Model, fresh_networks
from capo.rollout import Collector, batch_shapes

MOST_KEPT = 2 * 2**30
"""Limit of the bytes of earlier batches that updates learn from."""


class TrainState(NamedTuple):
    """Networks and optimizer states, on the host."""

    policy: Policy
    critic: Critic
    policy_opt: optax.OptState
    critic_opt: optax.OptState
    past: Past | None = None
    """The batches before the newest, if updates learn from them."""


class Recent(NamedTuple):
    """Returns and lengths of the last episodes, and whether the warmup continues."""

    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    warming: bool = True
    rate_scale: float = 1.0
    """Factor of the learning rate, if it is adaptive."""
    nonfinite: int = 0
    """Consecutive generations, up to the last, whose policy or critic was not finite."""
    entropy_scale: float = 1.0
    """Factor of the entropy bonus, if it is adaptive."""
    successes: tuple[float, ...] = ()
    """Of the last episodes whose environment says whether they succeeded."""


class Generation(NamedTuple):
    """Result of one iteration of the loop: the state, the model and the metrics."""

    number: int
    state: TrainState
    collector: Collector
    recent: Recent
    model: Model
    info: dict[str, float]

    def without_episodes(self) -> "Generation":
        """The same, continued in environments that begin new episodes."""
        stats = self.collector.obs_stats, self.collector.return_stats
        return self._replace(collector=Collector.waiting(*stats))

    def moved(self, config: Settled, number: int) -> "Generation":
        """The same as generation `number` of another configuration, with new episodes."""
        model = dataclasses.replace(self.model, config=config.plain())
        return self.without_episodes()._replace(model=model, number=number)


def model_of(
    config: Config,
    observation_space: gym.Space,
    action_space: gym.Space,
    state: TrainState,
    collector: Collector,
) -> Model:
    """The part of a state that is saved as a model."""
    return Model(
        config=config,
        observation_space=observation_space,
        action_space=action_space,
        policy=state.policy,
        critic=state.critic,
        obs_stats=collector.obs_stats,
        return_stats=collector.return_stats,
    )


def first_generation(
    config: Settled, observation_space: gym.Space, action_space: gym.Space
) -> Generation:
    """The generation before the first, −1, with fresh networks and blank statistics."""
    state = init(config, observation_space, action_space)
    stats = Encoder.of(config, observation_space).blank_stats()
    collector = Collector.waiting(stats, RunningStats.init())
    model = model_of(config.plain(), observation_space, action_space, state, collector)
    return _before_first(model, state)


def loaded_generation(model: Model, config: Settled) -> Generation:
    """The generation before the first, with the networks and statistics of a saved model."""
    space = model.observation_space
    return _before_first(model, to_host(_with_moments(config, space, model.policy, model.critic)))


def _before_first(model: Model, state: TrainState) -> Generation:
    return Generation(
        number=-1,
        state=state,
        collector=Collector.waiting(model.obs_stats, model.return_stats),
        recent=Recent(),
        model=model,
        info={},
    )


def init(config: Settled, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Fresh networks for these spaces, from the configuration's seed."""
    # One program, with the seed as an argument, rather than dozens of small ones.
    make = jax.jit(lambda key: _fresh(config, observation_space, action_space, key))
    return to_host(make(jax.random.key(config.seed)))


def _fresh(
    config: Settled, observation_space: gym.Space, action_space: gym.Space, key: PRNGKeyArray
) -> TrainState:
    policy, critic = fresh_networks(config, observation_space, action_space, key)
    return _with_moments(config, observation_space, policy, critic)


def _with_moments(
    config: Settled, observation_space: gym.Space, policy: Policy, critic: Critic
) -> TrainState:
    state = TrainState(
        policy=policy,
        critic=critic,
        policy_opt=init_optimizer(config, policy),
        critic_opt=init_optimizer(config, critic),
    )
    return with_past(state, config, observation_space)


def with_past(state: TrainState, config: Settled, observation_space: gym.Space) -> TrainState:
    """The state with room for the batches that updates learn from; those in it stay if they fit."""
    size = config.batches - 1
    room = (size, config.num_steps, config.num_envs) if size else None
    if room == (None if state.past is None else state.past.log_prob.shape):
        return state
    batch = batch_shapes(config, observation_space, state.policy.family)
    _check_room(config, batch, size)
    return state._replace(past=init_past(batch, size) if size else None)


def _check_room(config: Settled, batch: Batch, size: int) -> None:
    """Refuses to keep more than `MOST_KEPT` bytes of earlier batches."""
    one = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(batch))
    if size * one > MOST_KEPT:
        name = "experts" if config.diversity == "batches" else "reuse"
        raise UsageError(
            f"the {size} batches before the newest take {size * one / 2**30:.1f} GiB, and at most "
            f"{MOST_KEPT / 2**30:g} GiB are kept; use {name_of(name, MOST_KEPT // one + 1)}, a "
            f"smaller {name_of('num_steps')} or {name_of('diversity', 'shuffle')}"
        )


def blank(config: Settled, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Shapes and dtypes of the result of `init`."""
    make = functools.partial(_fresh, config, observation_space, action_space)
    return jax.eval_shape(make, jax.random.key(0))
