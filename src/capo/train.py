"""The training loop: collect a batch, update, repeat."""

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator

import gymnasium as gym
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from capo.config import Config, Schedule
from capo.core.ema import averaged
from capo.core.networks import to_host
from capo.diagnostics.online import diagnose, diagnosed_generations, to_experience
from capo.envs.adapters import config_source, encode_observations
from capo.envs.base import VectorEnv
from capo.envs.timeouts import TimeoutEnv
from capo.errors import NonFiniteError, UsageError, name_of
from capo.methods import Settled, settle, warmup_of
from capo.model import Model
from capo.rollout import Batch, Collector, batch_shapes, collect
from capo.state import Generation, Recent, TrainState, init, with_past
from capo.storage.compiled import mended_cache, prepare_jax
from capo.update import generation, precompile

PATIENCE = 3
"""Consecutive non-finite generations after which a run stops."""
NETWORKS = ("policy", "critic")
ADAPTIVE_RANGE = (1e-5, 1e-2)
"""Limits of an adaptive learning rate."""
RETURN_WINDOW = 100
"""Number of episodes in the mean return."""


def scheduled(kind: Schedule, index: int, config: Config) -> float:
    """Factor of generation i of n: 1 − i/n, 1, or min(1, (1 − i/n) / decay)."""
    left = 1 - index / config.generations
    match kind:
        case "linear":
            return left
        case "trapezoid":
            return min(1.0, left / config.decay) if config.decay else 1.0
    return 1.0


def learning_rate(config: Config, index: int) -> float:
    """The scheduled learning rate of a generation."""
    return config.learning_rate * scheduled(config.schedule, index, config)


def adapted(config: Config, scale: float, kl: float) -> float:
    """The factor of an adaptive rate after an update of this KL.

    Divided by 1.5 above twice the target, multiplied by 1.5 below half of it; the rate stays
    between 1e-5 and 1e-2.
    """
    if not config.adaptive_lr or not math.isfinite(kl):
        return scale
    if kl > 2 * config.adaptive_lr:
        scale /= 1.5
    elif kl < config.adaptive_lr / 2:
        scale *= 1.5
    low, high = (bound / config.learning_rate for bound in ADAPTIVE_RANGE)
    return min(max(scale, low), high)


def compile_generation(
    config: Config, observation_space: gym.Space, action_space: gym.Space
) -> float:
    """Compiles the programs of a run on a synthetic batch; returns the seconds it took."""
    prepare_jax()
    began = time.perf_counter()
    with mended_cache():
        _compile(settle(config, observation_space), observation_space, action_space)
    return time.perf_counter() - began


def _compile(config: Settled, observation_space: gym.Space, action_space: gym.Space) -> None:
    state = init(config, observation_space, action_space)
    shapes = batch_shapes(config, observation_space, state.policy.family)
    batch = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal(batch.obs.shape, np.float32).astype(batch.obs.dtype)
    batch = batch._replace(obs=obs, next_obs=obs)
    phases = [warmup_of(config), config] if _warms_up(config) else [config]
    precompile(phases, jax.random.key(0), state, batch)
    if diagnosed_generations(config):
        update = generation(config, jax.random.key(0), state, batch, config.learning_rate)
        data = to_experience(batch, rng.standard_normal(config.batch_size))
        diagnose(state.policy, update.experts, update.state.policy, data)


def _warms_up(config: Settled) -> bool:
    return config.method.wide and config.warmup > 0


def generations(
    config: Config,
    env: VectorEnv | None = None,
    start: Generation | None = None,
    env_timeout: float = 0.0,
    end_process: bool = False,
) -> Iterator[Generation]:
    """Trains and yields after every generation. The run is a function of the configuration.

    The caller closes an environment that it passes in. `start` is the generation to continue from:
    `total_steps` counts from the beginning, and the environments must be in the state of then.

    A step or reset of the environments that takes longer than `env_timeout` seconds is an
    `EnvError` (0: no limit). `end_process` ends the process, after twice the time, where no error
    can be raised: in C code that does not return.
    """
    settled = settle(config)
    prepare_jax()
    made = env
    if made is None:
        made = config_source(config).make_for(config)
    timed = TimeoutEnv(encode_observations(made, config), config.env_id, env_timeout, end_process)
    try:
        yield from _loop(settle(settled, made.observation_space), timed, start)
    finally:
        if env is None:
            made.close()


def _loop(config: Settled, env: TimeoutEnv, start: Generation | None) -> Iterator[Generation]:
    if env.num_envs != config.num_envs:
        raise UsageError(f"num_envs is {config.num_envs}, but {env.num_envs} environments came in")
    spaces, saved = (env.observation_space, env.action_space), config.plain()
    if start is None:
        state, collector, recent = init(config, *spaces), Collector.init(env, config), Recent()
    else:
        _, state, collector, recent, *_ = start
        state = to_host(with_past(state, config, env.observation_space))
    key, rows = jax.random.fold_in(jax.random.key(config.seed), 1), deque(maxlen=PATIENCE)
    returns = deque(recent.returns, maxlen=RETURN_WINDOW)
    lengths = deque(recent.lengths, maxlen=RETURN_WINDOW)
    warming, looked_at = recent.warming and _warms_up(config), diagnosed_generations(config)
    began = time.perf_counter() - (start.info.get("seconds", 0.0) if start else 0.0)
    for index in range(start.number + 1 if start else 0, config.generations):
        warming = warming and not _warmup_over(config, index, returns)
        started = time.perf_counter()
        rng = np.random.default_rng([config.seed, index])
        with env.armed():
            collector, batch, episodes = collect(env, state.policy, collector, config, rng)
        returns.extend(episodes.returns)
        lengths.extend(episodes.lengths)
        collected = time.perf_counter()
        phase, scale = warmup_of(config) if warming else config, recent.rate_scale
        rate = learning_rate(config, index) * scale
        step = jax.random.fold_in(key, index)
        delta = config.delta * scheduled(config.delta_schedule, index, config)
        average = state.ema
        state, info = _update(phase, step, state, batch, rate, delta, index in looked_at)
        state = state._replace(ema=averaged(average, state.policy, config.ema, index + 1))
        row = {
            "generation": float(index),
            "steps": float((index + 1) * config.batch_size),
            "return": _mean(returns),
            "length": _mean(lengths),
            "episodes": float(len(episodes.returns)),
            "warmup": float(warming),
            "learning_rate": rate,
            **info,
            "seconds": time.perf_counter() - began,
            "collect_seconds": collected - started,
        }
        collector = collector.restart_if_due(env, config, index)
        stats = (collector.obs_stats, collector.return_stats)
        model = Model(saved, *spaces, state.policy, state.critic, *stats)
        rows.append(row)
        scale, kept = adapted(config, scale, info["kl"]), _kept_in_a_row(recent.kept, row)
        recent = Recent(tuple(returns), tuple(lengths), warming, scale, kept)
        yield Generation(index, state, collector, recent, model, row)
        _check_kept(config, recent.kept, rows)


def _update(
    config: Settled,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    rate: float,
    delta: float,
    look: bool,
) -> tuple[TrainState, dict[str, float]]:
    """The next state, and the metrics of the update; with `look`, its signal and waste too."""
    began = time.perf_counter()
    update = generation(config, key, state, batch, rate, delta)
    updated = time.perf_counter()
    info = update.info
    if look and not info["nonfinite/experts"]:
        data = to_experience(batch, update.advantages)
        info |= diagnose(state.policy, update.experts, update.state.policy, data)
    seconds = {"update_seconds": updated - began, "diagnose_seconds": time.perf_counter() - updated}
    return update.state, {**info, **seconds}


def learn(config: Config, env: VectorEnv | None = None) -> Model:
    """Trains to the end and returns the model."""
    last = deque(generations(config, env), maxlen=1)
    return last[0].model


def _warmup_over(config: Config, index: int, returns: deque[float]) -> bool:
    """Whether generation `index` comes after the warmup."""
    if config.warmup_floor is not None and returns and _mean(returns) > config.warmup_floor:
        return True
    return index >= config.warmup * config.generations


def _mean(values: deque) -> float:
    return sum(values) / len(values) if values else math.nan


def _kept_in_a_row(before: int, row: dict[str, float]) -> int:
    """Number of consecutive non-finite generations up to this row."""
    return before + 1 if any(row[f"nonfinite/{name}"] for name in NETWORKS) else 0


def _check_kept(config: Config, kept: int, rows: Iterable[dict[str, float]]) -> None:
    """Stops a run after `PATIENCE` non-finite generations; `rows` are its last ones."""
    if kept < PATIENCE:
        return
    rows = list(rows)
    found = [f"the {name}" for name in NETWORKS if any(row[f"nonfinite/{name}"] for row in rows)]
    if experts := max(int(row["nonfinite/experts"]) for row in rows):
        found.insert(0, f"{experts} expert{'s' * (experts > 1)}")
    last = int(rows[-1]["generation"])
    raise NonFiniteError(
        f"{config.env_id}: {', '.join(found)} not finite in generations {last - kept + 1} to {last}"
        f"; the networks are the last finite ones. Try a lower {name_of('learning_rate')} "
        f"(it is {config.learning_rate:g}) or {name_of('max_grad_norm')} "
        f"({config.max_grad_norm:g}), or "
        f"smaller observations and rewards ({name_of('normalize_obs')}, "
        f"{name_of('normalize_reward')})"
    )
