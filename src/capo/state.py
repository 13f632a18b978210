"""The state of a run between two generations."""

import dataclasses
import functools
from typing import NamedTuple

import gymnasium as gym
import jax
import numpy as np
import optax
from jaxtyping import PRNGKeyArray

from capo.config import Config
from capo.core.critic import init_critic_optimizer
from capo.core.networks import Critic, Policy, to_host
from capo.core.optimizer import init_optimizer
from capo.core.outer import Outer, init_outer
from capo.core.reuse import Past, init_past
from capo.envs.base import VectorEnv
from capo.methods import settle
from capo.model import Model, fresh_networks
from capo.rollout import Collector, batch_shapes, reset_seed


class TrainState(NamedTuple):
    """Networks and optimizer states, on the host."""

    policy: Policy
    critic: Critic
    policy_opt: optax.OptState
    critic_opt: optax.OptState
    outer: Outer | None = None
    """Momentum of the outer step, if there is one."""
    ema: Policy | None = None
    """Exponential average of the policy over generations, if there is one."""
    past: Past | None = None
    """The batches before the newest, if updates learn from them."""


class Recent(NamedTuple):
    """Returns and lengths of the last episodes, and whether the warmup continues."""

    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    warming: bool = True
    rate_scale: float = 1.0
    """Factor of the learning rate, if it is adaptive."""
    kept: int = 0
    """Consecutive generations, up to the last, whose policy or critic was not finite."""


class Generation(NamedTuple):
    """Result of one iteration of the loop: the state, the model and the metrics."""

    number: int
    state: TrainState
    collector: Collector
    recent: Recent
    model: Model
    info: dict[str, float]

    @property
    def averaged(self) -> Model | None:
        """The model with the average of the policy over generations, if there is one."""
        if self.state.ema is None:
            return None
        return dataclasses.replace(self.model, policy=self.state.ema)


def init(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Fresh networks for these spaces, from the configuration's seed."""
    # One program, with the seed as an argument, rather than dozens of small ones.
    make = jax.jit(lambda key: _fresh(config, observation_space, action_space, key))
    return to_host(make(jax.random.key(config.seed)))


def _fresh(
    config: Config, observation_space: gym.Space, action_space: gym.Space, key: PRNGKeyArray
) -> TrainState:
    networks = fresh_networks(config, observation_space, action_space, key)
    return _with_empty_moments(config, observation_space, *networks)


def _with_empty_moments(
    config: Config, observation_space: gym.Space, policy: Policy, critic: Critic
) -> TrainState:
    moments = init_optimizer(config, policy), init_critic_optimizer(config, critic)
    outer = init_outer(policy) if config.outer_momentum else None
    state = TrainState(policy, critic, *moments, outer, policy if config.ema else None)
    return with_past(state, config, observation_space)


def with_past(state: TrainState, config: Config, observation_space: gym.Space) -> TrainState:
    """The state with room for the batches that updates learn from; those in it stay if they fit."""
    size = settle(config).batches - 1
    if size == (0 if state.past is None else len(state.past.log_prob)):
        return state
    batch = batch_shapes(config, observation_space, state.policy.family)
    return state._replace(past=init_past(batch, size) if size else None)


def before_first(model: Model) -> Generation:
    """The generation before the first, with the networks and statistics of a loaded model."""
    networks = (model.policy, model.critic)
    state = to_host(_with_empty_moments(model.config, model.observation_space, *networks))
    nowhere = np.zeros(0)
    collector = Collector(nowhere, model.obs_stats, model.return_stats, *[nowhere] * 3, seed=0)
    return Generation(-1, state, collector, Recent(), model, {})


def with_new_episodes(step: Generation, env: VectorEnv, config: Config) -> Generation:
    """The same generation, continued in environments that begin new episodes."""
    stats = (step.collector.obs_stats, step.collector.return_stats)
    seed = reset_seed(config, step.number)
    return step._replace(collector=Collector.restart(env, *stats, seed))


def blank(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Shapes and dtypes of the result of `init`."""
    make = functools.partial(_fresh, config, observation_space, action_space)
    return jax.eval_shape(make, jax.random.key(0))
