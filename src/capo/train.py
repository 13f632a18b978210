"""The training loop: collect a batch, update, repeat."""

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from capo.config import Config, Schedule
from capo.core.batch import Batch
from capo.core.families import widest_entropy
from capo.core.networks import to_host
from capo.diagnostics.online import diagnose, diagnosed_generations, to_experience
from capo.envs.adapters import config_source, encode_observations
from capo.envs.base import VectorEnv
from capo.envs.timeouts import TimeoutEnv
from capo.errors import NonFiniteError, UsageError, name_of
from capo.methods import Settled, settle
from capo.model import Model
from capo.rollout import batch_shapes, collect
from capo.state import Generation, Recent, TrainState, first_generation, model_of, with_past
from capo.storage.compiled import mended_cache, prepare_jax
from capo.update import improve, precompile

PATIENCE = 3
"""Consecutive non-finite generations after which a run stops."""
NETWORKS = ("policy", "critic")
ADAPTIVE_RANGE = (1e-5, 1e-2)
"""Limits of an adaptive learning rate."""
BONUS_RANGE = (1e-5, 0.1)
"""Limits of the weight of an adaptive entropy bonus."""
RETURN_WINDOW = 100
"""Number of episodes in the mean return."""


def scheduled(kind: Schedule, index: int, config: Config) -> float:
    """Factor of generation i of n: 1 − i/n, 1, or min(1, (1 − i/n) / decay)."""
    left = 1 - index / config.num_generations
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
    if config.adaptive_lr is None or not math.isfinite(kl):
        return scale
    if kl > 2 * config.adaptive_lr:
        scale /= 1.5
    elif kl < config.adaptive_lr / 2:
        scale *= 1.5
    low, high = (bound / config.learning_rate for bound in ADAPTIVE_RANGE)
    return min(max(scale, low), high)


def bonus_weight(config: Config, scale: float, index: int) -> float:
    """The weight of the entropy bonus in a generation, within `BONUS_RANGE` if it is adaptive."""
    weight = config.entropy_coef * scale * scheduled(config.entropy_schedule, index, config)
    return (
        weight if config.entropy_fall is None else min(max(weight, BONUS_RANGE[0]), BONUS_RANGE[1])
    )


def adapted_bonus(config: Config, scale: float, entropy: float, start: float, index: int) -> float:
    """The factor of an adaptive bonus after an update of this entropy.

    The target H_i = H_0 (1 − fall · i/n) falls from the largest entropy of the action space. The
    logarithm of the factor grows by half the relative shortfall (H_i − H) / H_0, up to ±0.5.
    """
    if config.entropy_fall is None or not math.isfinite(entropy):
        return scale
    target = start * (1 - config.entropy_fall * index / config.num_generations)
    scale *= math.exp(0.5 * min(max((target - entropy) / start, -1.0), 1.0))
    low, high = (bound / config.entropy_coef for bound in BONUS_RANGE)
    return min(max(scale, low), high)


def compile_programs(config: Settled, start: Generation) -> None:
    """Compiles the programs of a run that continues from `start`, on a synthetic batch."""
    prepare_jax()
    with mended_cache():
        _compile(config, start)


def _compile(config: Settled, start: Generation) -> None:
    space = start.model.observation_space
    state = to_host(with_past(start.state, config, space))
    shapes = batch_shapes(config, space, state.policy.family)
    batch = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal(batch.obs.shape, np.float32).astype(batch.obs.dtype)
    batch = batch._replace(obs=obs, next_obs=obs)
    phases = [config.lone, config] if config.warms_up else [config]
    precompile(phases, jax.random.key(0), state, batch)
    if diagnosed_generations(config):
        update = improve(config, jax.random.key(0), state, batch, config.learning_rate)
        data = to_experience(batch, rng.standard_normal(config.batch_size))
        diagnose(state.policy, update.experts, update.state.policy, data)


def generations(
    config: Config,
    env: VectorEnv | None = None,
    start: Generation | None = None,
    env_timeout: float | None = None,
    end_process: bool = False,
) -> Iterator[Generation]:
    """Trains and yields after every generation. The run is a function of the configuration.

    The caller closes an environment that it passes in. `start` is the generation to continue from:
    `total_steps` counts from the beginning, and the environments must be in the state of then,
    unless it is `without_episodes`.

    A step or reset of the environments that takes longer than `env_timeout` seconds is an
    `EnvError` (None: no limit). `end_process` ends the process, after twice the time, where no
    error can be raised: in C code that does not return.
    """
    prepare_jax()
    made = env
    if made is None:
        made = config_source(config).make_for(config)
    settled = settle(config, made.observation_space)
    timed = TimeoutEnv(encode_observations(made, settled), config.env_id, env_timeout, end_process)
    if start is None:
        start = first_generation(settled, timed.observation_space, timed.action_space)
    try:
        yield from _loop(settled, timed, start)
    finally:
        if env is None:
            made.close()


def _loop(config: Settled, env: TimeoutEnv, start: Generation) -> Iterator[Generation]:
    if env.num_envs != config.num_envs:
        raise UsageError(f"num_envs is {config.num_envs}, but {env.num_envs} environments came in")
    saved = config.plain()
    collector, recent = start.collector, start.recent
    if not collector.in_episodes:
        collector = collector.restart(env, config, start.number)
    state = to_host(with_past(start.state, config, env.observation_space))
    key, rows = jax.random.fold_in(jax.random.key(config.seed), 1), deque(maxlen=PATIENCE)
    returns = deque(recent.returns, maxlen=RETURN_WINDOW)
    lengths = deque(recent.lengths, maxlen=RETURN_WINDOW)
    successes = deque(recent.successes, maxlen=RETURN_WINDOW)
    widest = widest_entropy(state.policy.family)
    warming, looked_at = recent.warming and config.warms_up, diagnosed_generations(config)
    began = time.perf_counter() - start.info.get("seconds", 0.0)
    for index in range(start.number + 1, config.num_generations):
        warming = warming and not _warmup_over(config, index, returns)
        started = time.perf_counter()
        with env.armed():
            collector, batch, episodes = collect(env, state.policy, collector, config, index)
        returns.extend(episodes.returns)
        lengths.extend(episodes.lengths)
        successes.extend(episodes.successes)
        collected = time.perf_counter()
        phase, scale = config.lone if warming else config, recent.rate_scale
        rate = learning_rate(config, index) * scale
        step = jax.random.fold_in(key, index)
        bonus = bonus_weight(config, recent.entropy_scale, index)
        state, info = _update(phase, step, state, batch, (rate, bonus), index in looked_at)
        row = {
            "generation": float(index),
            "steps": float((index + 1) * config.batch_size),
            "return": _mean(returns),
            "length": _mean(lengths),
            "episodes": float(len(episodes.returns)),
            **({"success_rate": _mean(successes)} if successes else {}),
            "warmup": float(warming),
            "learning_rate": rate,
            "entropy_coef": bonus,
            **info,
            "seconds": time.perf_counter() - began,
            "collect_seconds": collected - started,
        }
        collector = collector.restart_if_due(env, config, index)
        model = model_of(saved, env.observation_space, env.action_space, state, collector)
        rows.append(row)
        scale = adapted(config, scale, info["kl"])
        care = adapted_bonus(config, recent.entropy_scale, info["entropy"], widest, index)
        recent = Recent(
            returns=tuple(returns),
            lengths=tuple(lengths),
            warming=warming,
            rate_scale=scale,
            nonfinite=_nonfinite_in_a_row(recent.nonfinite, row),
            entropy_scale=care,
            successes=tuple(successes),
        )
        yield Generation(
            number=index, state=state, collector=collector, recent=recent, model=model, info=row
        )
        _check_finite(config, recent.nonfinite, rows)


def _update(
    config: Settled,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    numbers: tuple[float, float],
    look: bool,
) -> tuple[TrainState, dict[str, float]]:
    """The next state, and the metrics of the update; with `look`, its signal and waste too.

    `numbers` are the learning rate and the weight of the entropy bonus.
    """
    began = time.perf_counter()
    update = improve(config, key, state, batch, *numbers)
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
    return index >= config.warmup * config.num_generations


def _mean(values: deque) -> float:
    return sum(values) / len(values) if values else math.nan


def _nonfinite_in_a_row(before: int, row: dict[str, float]) -> int:
    """Number of consecutive non-finite generations up to this row."""
    return before + 1 if any(row[f"nonfinite/{name}"] for name in NETWORKS) else 0


def _check_finite(config: Config, count: int, rows: Iterable[dict[str, float]]) -> None:
    """Stops a run after `PATIENCE` non-finite generations; `rows` are its last ones."""
    if count < PATIENCE:
        return
    rows = list(rows)
    broken = [f"the {name}" for name in NETWORKS if any(row[f"nonfinite/{name}"] for row in rows)]
    if experts := max(int(row["nonfinite/experts"]) for row in rows):
        broken.insert(0, f"{experts} expert{'s' * (experts > 1)}")
    last = int(rows[-1]["generation"])
    raise NonFiniteError(
        f"{config.env_id}: {', '.join(broken)} not finite in generations "
        f"{last - count + 1} to {last}; the networks are the last finite ones. "
        f"Try a lower {name_of('learning_rate')} "
        f"(it is {config.learning_rate:g}) or {name_of('max_grad_norm')} "
        f"({config.max_grad_norm:g}), or "
        f"smaller observations and rewards ({name_of('normalize_obs')}, "
        f"{name_of('normalize_reward')})"
    )
