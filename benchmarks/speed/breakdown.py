"""The parts of a generation; those of the update are compiled and timed separately.

In a run the critic is fitted in parallel with the experts, and the parts of a compiled program
share work. The sum of the parts therefore differs from the whole; both are reported.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed.cases import UPDATE
from benchmarks.speed.ours import config_of
from capo.config import Config
from capo.core.consensus import Experts
from capo.core.critic import fit_critic
from capo.core.distill import distill, line_search
from capo.core.experts import permutations, shares, train_experts
from capo.core.ppo import Rates
from capo.envs.backends import make
from capo.methods import method_of, settle
from capo.rollout import Collector, collect
from capo.state import init
from capo.storage.compiled import prepare_jax
from capo.update import advantages_of, improve, samples_of

compiled: Any = functools.partial(jax.jit, static_argnames="config")


class TimedSteps:
    """Environments that add up the seconds of their steps."""

    def __init__(self, env: Any):
        self._env, self.seconds = env, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: np.ndarray) -> Any:
        """Steps the environments and adds the time to `seconds`."""
        began = time.perf_counter()
        found = self._env.step(actions)
        self.seconds += time.perf_counter() - began
        return found


def breakdown(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Seconds of each part of each generation, and of the whole update call."""
    prepare_jax()
    plain = config_of(env_id, settings)
    env: Any = TimedSteps(make(plain.env_id, plain.num_envs, plain.seed, plain.backend))
    config = settle(plain, env.observation_space)
    state = init(config, env.observation_space, env.action_space)
    collector = Collector.init(env, config)
    for index in itertools.count():
        key = jax.random.key(index)
        env.seconds, began = 0.0, time.perf_counter()
        collector, batch, _ = collect(env, state.policy, collector, config, index)
        collected = time.perf_counter()
        update = improve(config, key, state, batch, config.learning_rate)
        updated = time.perf_counter()
        found = {
            "seconds": updated - began,
            "physics": env.seconds,
            "acting": collected - began - env.seconds,
            "update": updated - collected,
        }
        yield found | _parts(config, key, state, batch)
        state, collector = update.state, collector.restart_if_due(env, config, index)


def _parts(config: Config, key: Any, state: Any, batch: Any) -> dict[str, float]:
    """The parts of the update, one after the other on the same batch."""
    seconds: dict[str, float] = dict.fromkeys(UPDATE, 0.0)

    def timed(part: str, call: Callable[..., Any], *args: Any) -> Any:
        began = time.perf_counter()
        found = jax.block_until_ready(call(config, *args))
        seconds[part] += time.perf_counter() - began
        return found

    rate = np.float32(config.learning_rate)
    values, advantages, own = timed("advantage", _advantages, state.critic, batch)
    samples = timed("advantage", _samples, state.policy, batch, advantages)
    trained = timed("experts", _experts, key, state, samples, own, rate)
    experts = timed("aggregation", _judged, state.policy, batch, advantages, samples, trained)
    policy, target = timed("aggregation", _aggregate, experts)
    if config.distill == "on":
        policy = timed("distillation", _distill, policy, target, samples)
    if config.line_search != "off":
        timed("line search", _line_search, state.policy, policy, samples)
    targets = (advantages + values).reshape(-1)
    timed("critic", _critic, key, state, samples.obs, targets, rate)
    return seconds


@compiled
def _advantages(config, critic, batch):
    return advantages_of(config, critic, batch)


@compiled
def _samples(config, policy, batch, advantages):
    return samples_of(policy, batch, advantages, config)[0]


@compiled
def _experts(config, key, state, samples, advantages, rate):
    method = method_of(config.algo)
    share = shares(key, advantages, method.depth(config), config)
    rule, start = method.rule(config), (state.policy, state.policy_opt)
    return train_experts(rule, *start, samples, share, Rates(rate, jnp.float32(0)), config)


@compiled
def _judged(config, policy, batch, advantages, samples, trained):
    _, surrogate_of = samples_of(policy, batch, advantages, config)
    dists = jax.vmap(lambda p: p(samples.obs))(trained.policy)
    ends = (trained.policy, trained.opt_state, trained.mean_iterate)
    return Experts(*ends, dists, jax.vmap(surrogate_of)(dists))


@compiled
def _aggregate(config, experts):
    return method_of(config.algo).aggregate(experts)


@compiled
def _distill(config, policy, target, samples):
    target = policy(samples.obs) if target is None else target
    return distill(policy, target, samples.dist, samples.obs, config)[0]


@compiled
def _line_search(config, incumbent, policy, samples):
    return line_search(incumbent, policy, samples.dist, samples.obs, config)[0]


@compiled
def _critic(config, key, state, obs, targets, rate):
    order = permutations(key, config.epochs, obs.shape[0])
    indices = order.reshape(config.epochs, config.minibatches, -1)
    return fit_critic(state.critic, state.critic_opt, obs, targets, indices, rate, config)
