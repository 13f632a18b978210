"""The generation loop: collect a batch, update, go on."""

import math
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.adapters import encoded, own_source
from capo.backend import mended_cache, prepare_backend
from capo.config import Config, UsageError
from capo.diagnostics import diagnose, diagnosed, experience
from capo.envs import VectorEnv
from capo.faults import PATIENCE, check_kept, kept_in_a_row
from capo.methods import method_of, resolve, warmup_of
from capo.model import Model
from capo.observations import Encoder, settle
from capo.rollout import Batch, Collector, collect
from capo.timeouts import TimedEnv
from capo.update import TrainState, generation, init, rehearse

RETURN_WINDOW = 100
"""Episodes that the reported return is the mean of."""


class Recent(NamedTuple):
    """The last episodes' returns and lengths, and whether the warmup goes on."""

    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    warming: bool = True
    kept: int = 0
    """Generations in a row, up to the last, whose policy or critic was not finite."""


class Generation(NamedTuple):
    """One turn of the loop: the new state, the model so far, a flat dictionary of what happened."""

    number: int
    state: TrainState
    collector: Collector
    recent: Recent
    model: Model
    info: dict[str, float]


def learning_rate(config: Config, index: int) -> float:
    """Linear from `learning_rate` to 0 over the generations, one value a generation."""
    left = 1 - index / config.generations if config.anneal_lr else 1.0
    return config.learning_rate * left


def compile_generation(
    config: Config, observation_space: gym.Space, action_space: gym.Space
) -> float:
    """Compiles ahead what a run will call, on a made-up batch; returns the seconds it took."""
    prepare_backend()
    began = time.perf_counter()
    with mended_cache():
        _compile(config, observation_space, action_space)
    return time.perf_counter() - began


def _compile(config: Config, observation_space: gym.Space, action_space: gym.Space) -> None:
    config = settle(config, observation_space)
    state, encoder = (
        init(config, observation_space, action_space),
        Encoder.of(config, observation_space),
    )
    shape = (config.num_steps, config.num_envs)
    rng = np.random.default_rng(0)
    dtype = encoder.dtype if encoder.image else np.float32
    obs = rng.standard_normal((*shape, *encoder.shape), np.float32).astype(dtype)
    family = state.policy.family
    noise = family.noise(rng, shape)
    actions = family.sample(np.zeros((*shape, family.size), np.float32), noise)
    flags = np.zeros(shape, bool)
    batch = Batch(obs, obs, actions, np.zeros(shape, np.float32), flags, flags)
    phases = [warmup_of(config), config] if _warms_up(config) else [config]
    rehearse(phases, jax.random.key(0), state, batch)
    if diagnosed(config):
        update = generation(config, jax.random.key(0), state, batch, config.learning_rate)
        data = experience(batch, rng.standard_normal(config.batch_size))
        diagnose(state.policy, update.experts, update.state.policy, data)


def _warms_up(config: Config) -> bool:
    return method_of(config.algo).wide and config.warmup > 0


def generations(
    config: Config,
    env: VectorEnv | None = None,
    start: Generation | None = None,
    env_timeout: float = 0.0,
    end_process: bool = False,
) -> Iterator[Generation]:
    """Trains, yielding after every generation; the whole run is a function of the configuration.

    An environment that is passed in is the caller's to close. With `start`, goes on from there:
    `total_steps` then counts from the beginning, and the environments must stand where they stood.

    A step or reset of the environments that takes longer than `env_timeout` seconds is an
    `EnvError` (0: no limit). `end_process` ends the process, after twice the time, where no error
    can be raised: in C code that does not return.
    """
    config = resolve(config)
    prepare_backend()
    made = env
    if made is None:
        made = own_source(config).make(config.num_envs, config.seed, config.workers)
    config = settle(config, made.observation_space)
    timed = TimedEnv(encoded(made, config), config.env_id, env_timeout, end_process)
    try:
        yield from _loop(config, timed, start)
    finally:
        if env is None:
            made.close()


def _loop(config: Config, env: TimedEnv, start: Generation | None) -> Iterator[Generation]:
    if env.num_envs != config.num_envs:
        raise UsageError(f"num_envs is {config.num_envs}, but {env.num_envs} environments came in")
    spaces = (env.observation_space, env.action_space)
    if start is None:
        state, collector, recent = init(config, *spaces), Collector.init(env, config), Recent()
    else:
        _, state, collector, recent, *_ = start
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    returns = deque(recent.returns, maxlen=RETURN_WINDOW)
    lengths = deque(recent.lengths, maxlen=RETURN_WINDOW)
    rows = deque(maxlen=PATIENCE)
    warming, looked_at = recent.warming and _warms_up(config), diagnosed(config)
    began = time.perf_counter() - (start.info.get("seconds", 0.0) if start else 0.0)
    for index in range(start.number + 1 if start else 0, config.generations):
        warming = warming and not _warm(config, index, returns)
        started = time.perf_counter()
        rng = np.random.default_rng([config.seed, index])
        with env.watched():
            collector, batch, episodes = collect(env, state.policy, collector, config, rng)
        returns.extend(episodes.returns)
        lengths.extend(episodes.lengths)
        collected = time.perf_counter()
        phase, rate = warmup_of(config) if warming else config, learning_rate(config, index)
        incumbent = state.policy
        update = generation(phase, jax.random.fold_in(key, index), state, batch, rate)
        state, info = update.state, update.info
        updated = time.perf_counter()
        if index in looked_at and not info["nonfinite/experts"]:
            data = experience(batch, update.advantages)
            info |= diagnose(incumbent, update.experts, state.policy, data)
        now = time.perf_counter()
        row = {
            "generation": float(index),
            "steps": float((index + 1) * config.batch_size),
            "return": _mean(returns),
            "length": _mean(lengths),
            "episodes": float(len(episodes.returns)),
            "warmup": float(warming),
            "learning_rate": rate,
            **info,
            "seconds": now - began,
            "collect_seconds": collected - started,
            "update_seconds": updated - collected,
            "diagnose_seconds": now - updated,
        }
        collector = collector.renewed(env, config, index)
        stats = (collector.obs_stats, collector.return_stats)
        model = Model(config, *spaces, state.policy, state.critic, *stats)
        rows.append(row)
        recent = Recent(tuple(returns), tuple(lengths), warming, kept_in_a_row(recent.kept, row))
        yield Generation(index, state, collector, recent, model, row)
        check_kept(config, recent.kept, rows)


def learn(config: Config, env: VectorEnv | None = None) -> Model:
    """Trains to the end and returns the model."""
    last = deque(generations(config, env), maxlen=1)
    return last[0].model


def _warm(config: Config, index: int, returns: deque[float]) -> bool:
    """Whether the warmup is over before generation `index`."""
    if config.warmup_floor is not None and returns and _mean(returns) > config.warmup_floor:
        return True
    return index >= config.warmup * config.generations


def _mean(values: deque) -> float:
    return sum(values) / len(values) if values else math.nan
