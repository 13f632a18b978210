"""Adapters from ids, Gymnasium environments, factories and pools to `VectorEnv`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from capo.config import Config
from capo.core.encoding import Encoder
from capo.envs.async_workers import can_close, find_failed, kill_workers
from capo.envs.backends import make
from capo.envs.base import Step, VectorEnv, failure_message, quiet, success_of, successes_of
from capo.envs.envpool import EnvPoolEnv
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.registry import import_module_of
from capo.envs.timeouts import Alarm, TimeoutEnv
from capo.envs.wrapping import BARE, Dressing, dressing_of
from capo.errors import EnvError, UsageError, name_of


class EncodedEnv:
    """Wraps a vector environment: observations are encoded for the network, and frames stacked."""

    def __init__(self, env: VectorEnv, encoder: Encoder):
        self.backend, self.num_envs = env.backend, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._env, self._encoder, self._lead = env, encoder, (env.num_envs,)
        self._stack = np.empty(0)

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Resets all environments."""
        frame = self._encoder(self._env.reset(seed), self._lead)
        self._stack = self._encoder.first(frame)
        return self._stack

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments; a new episode starts a new stack of frames."""
        raw = self._env.step(actions)
        reached = self._encoder.then(self._stack, self._encoder(raw.next_obs, self._lead))
        self._stack, done = reached, raw.terminated | raw.truncated
        if done.any():
            self._stack = reached.copy()
            frame = self._encoder(raw.obs, self._lead)
            self._stack[done] = self._encoder.first(frame[done])
        return raw._replace(obs=self._stack, next_obs=reached)

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


def encode_observations(env: VectorEnv, config: Config) -> VectorEnv:
    """Wraps the environment in the encoder of the configuration, if its observations need one."""
    encoder = Encoder.of(config, env.observation_space)
    return env if encoder.plain or isinstance(env, EncodedEnv) else EncodedEnv(env, encoder)


class GymnasiumVectorEnv:
    """A Gymnasium vector environment with same-step autoreset, whatever its own autoreset mode."""

    backend = "gymnasium vector"

    def __init__(self, env: gym.vector.VectorEnv, seed: int):
        self.num_envs, self._env, self._seed = env.num_envs, env, seed
        self.name, self._steps = _name(env), 0
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        if self._mode is AutoresetMode.NEXT_STEP and not _resets_on_request(env.unwrapped):
            raise UsageError(
                f"{type(env.unwrapped).__name__} resets in the step after an episode ends, so the "
                "batch would contain resets; make it with autoreset_mode=SAME_STEP or DISABLED, "
                'or with gym.make_vec(…, vectorization_mode="sync")'
            )

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments; default: the seed of the constructor."""
        self._steps = 0
        return self._call(self._env.reset, seed=self._seed if seed is None else seed)[0]

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments and resets those whose episode ended."""
        self._steps += 1
        returned, reward, terminated, truncated, info = self._call(self._env.step, actions)
        done = terminated | truncated
        obs = next_obs = returned
        if done.any() and self._mode is AutoresetMode.SAME_STEP:
            next_obs = _replace_rows(self.observation_space, returned, done, info["final_obs"])
            info = info.get("final_info", info)
        elif done.any():
            next_obs = _copy(returned)
            obs = self._call(self._env.reset, options={"reset_mask": done})[0]
        success = successes_of(info, self.num_envs)
        return Step(obs, next_obs, reward, terminated, truncated, success)

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the method; on an error, kills the worker processes and raises EnvError."""
        try:
            return method(*args, **kwargs)
        except Exception as error:
            Alarm.cancel_current()
            indices, reason = find_failed(self._env.unwrapped, error)
            kill_workers(self._env.unwrapped)
            message = failure_message(self.name, indices, self._steps, error, reason)
            raise EnvError(message) from error

    def close(self) -> None:
        """Closes the environments; kills worker processes that could not be closed."""
        if not can_close(self._env.unwrapped):
            kill_workers(self._env.unwrapped)
        self._env.close()


class StableVecEnv:
    """A VecEnv of Stable-Baselines3, which resets in the same step."""

    backend = "stable-baselines3"

    def __init__(self, env: Any, seed: int):
        self.num_envs, self._env, self._seed, self._steps = env.num_envs, env, seed, 0
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments; default: the seed of the constructor."""
        self._steps = 0
        self._env.seed(self._seed if seed is None else seed)
        return self._call(self._env.reset)

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments; the true final observations are in the infos."""
        self._steps += 1
        obs, reward, done, infos = self._call(self._env.step, actions)
        next_obs, truncated = obs, np.zeros(self.num_envs, bool)
        success = np.full(self.num_envs, np.nan)
        if done.any():
            last = [info.get("terminal_observation") for info in infos]
            next_obs = _replace_rows(self.observation_space, obs, done, last)
            cut = [info.get("TimeLimit.truncated", False) for info in infos]
            truncated = done & np.array(cut, bool)
            success = np.where(done, [success_of(info) for info in infos], np.nan)
        return Step(obs, next_obs, reward, done & ~truncated, truncated, success)

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            name = type(self._env).__name__
            raise EnvError(failure_message(name, [], self._steps, error)) from error

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


def _resets_on_request(env: Any) -> bool:
    """Whether a reset with `reset_mask` also cancels the autoreset of the next step."""
    if isinstance(env, AsyncVectorEnv):
        return bool(env.shared_memory)
    return isinstance(env, SyncVectorEnv)


def _copy(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _copy(part) for key, part in obs.items()}
    return tuple(map(_copy, obs)) if isinstance(obs, tuple) else np.array(obs)


def _replace_rows(space: gym.Space, obs: Any, rows: np.ndarray, values: Any) -> Any:
    """A copy of a batch of observations with some rows replaced by those of a list."""
    if isinstance(space, gym.spaces.Dict):
        return {
            key: _replace_rows(part, obs[key], rows, [v and v[key] for v in values])
            for key, part in space.items()
        }
    if isinstance(space, gym.spaces.Tuple):
        return tuple(
            _replace_rows(part, obs[i], rows, [v and v[i] for v in values])
            for i, part in enumerate(space)
        )
    copied = np.array(obs)
    for row in np.flatnonzero(rows):
        copied[row] = values[row]
    return copied


@dataclass(frozen=True)
class EnvSource:
    """A name for a task and a function that makes its environments."""

    name: str
    make: "EnvMaker"
    fixed_num_envs: int | None
    """Number of environments if the user made them; None if any number can be made."""
    dressing: Dressing = BARE
    """Arguments and wrappers of the task."""

    def make_for(self, config: Config) -> VectorEnv:
        """The training environments of a configuration."""
        return self.make(config.num_envs, config.seed, config.workers)

    def sized(self, fields: dict[str, Any], batch_size: int) -> dict[str, Any]:
        """Adds a fixed number of environments, and `num_steps` for a batch of this size."""
        if self.fixed_num_envs is None:
            return fields
        asked = fields.get("num_envs", self.fixed_num_envs)
        if asked != self.fixed_num_envs:
            raise UsageError(f"num_envs is {asked}, but {self.fixed_num_envs} environments came in")
        num_steps = max(1, batch_size // self.fixed_num_envs)
        return {"num_steps": num_steps, **fields, "num_envs": self.fixed_num_envs}


class EnvMaker(Protocol):
    """Makes `count` environments; `workers` has an effect on the environments of an id only."""

    def __call__(self, count: int, seed: int, workers: int | None = 0, /) -> VectorEnv: ...


def config_source(config: Config) -> EnvSource:
    """The task of a configuration. Imports no module: the configuration may come from a file."""
    dressing = Dressing(config.env_kwargs, config.wrappers)
    return _id_source(config.env_id, config.backend, dressing)


def _id_source(env_id: str, backend: str, dressing: Dressing) -> EnvSource:
    wrappers, arguments = dressing.wrappers, dressing.arguments

    def made(count: int, seed: int, workers: int | None = 0) -> VectorEnv:
        return make(env_id, count, seed, backend, workers, wrappers, **arguments)

    return EnvSource(env_id, made, None, dressing)


def choose_source(config: Config, env: Any = None) -> EnvSource:
    """The source of `env`, or of the configuration's task if that is None."""
    return config_source(config) if env is None else env_source(env, config.backend)


def env_source(env: Any, backend: str = "auto", dressing: Dressing = BARE) -> EnvSource:
    """The source of an id, a Gymnasium Env, a function that makes one, a VectorEnv, or an EnvPool.

    Imports the module of a `module:id`, so the id must come from the user, not from a file.
    `dressing` is for an id; an environment that was given has arguments and wrappers of its own.
    """
    if isinstance(env, str):
        import_module_of(env)
        return _id_source(env, backend, dressing)
    if dressing != BARE:
        given = f"{name_of('env_kwargs')} and {name_of('wrappers')}"
        raise UsageError(f"{given} are for an id; wrap the environment that you give")
    if isinstance(env, EnvSource):
        return env
    if hasattr(env, "all_env_ids"):
        return _pool_source(env)
    if isinstance(env, gym.vector.VectorEnv):
        name = _name(env)
        one = env.unwrapped.envs[0] if isinstance(env.unwrapped, SyncVectorEnv) else None
        dressing = BARE if one is None else dressing_of(one)
        source = EnvSource(name, lambda _, seed, *__: GymnasiumVectorEnv(env, seed), env.num_envs)
        return replace(source, dressing=dressing)
    if isinstance(env, gym.Env):
        name = _name(env)
        source = EnvSource(name, lambda _, seed, *__: GymnasiumEnv(lambda: env, 1, seed, name), 1)
        return replace(source, dressing=dressing_of(env))
    if hasattr(env, "step_async") and hasattr(env, "env_is_wrapped"):
        name = _stable_name(env)
        return EnvSource(name, lambda _, seed, *__: StableVecEnv(env, seed), env.num_envs)
    if isinstance(env, VectorEnv):
        return EnvSource(type(env).__name__, lambda *_: env, env.num_envs)
    if callable(env):
        return _factory_source(env)
    raise UsageError(
        f"an environment is an id, a gymnasium.Env, a function that makes one, a "
        f"gymnasium.vector.VectorEnv, a VecEnv of Stable-Baselines3 or an EnvPool, not "
        f"{type(env).__name__}"
    )


def with_timeout(source: EnvSource, seconds: float | None, hard: bool = False) -> EnvSource:
    """The same source, with a timeout on all environments it makes."""

    def make_limited(count: int, seed: int, workers: int | None = 0) -> VectorEnv:
        return TimeoutEnv(source.make(count, seed, workers), source.name, seconds, hard)

    return replace(source, make=make_limited)


def _factory_source(factory: Callable[[], Any]) -> EnvSource:
    with quiet():
        first = factory()
    if not isinstance(first, gym.Env):
        raise UsageError(f"the function must make a gymnasium.Env, it made {type(first).__name__}")
    name, dressing = _name(first), dressing_of(first)
    first.close()
    return EnvSource(name, lambda n, seed, *_: GymnasiumEnv(factory, n, seed, name), None, dressing)


def _pool_source(pool: Any) -> EnvSource:
    settings = pool.config
    if settings["batch_size"] != settings["num_envs"]:
        raise UsageError("an EnvPool must step all its environments: batch_size = num_envs")
    if not isinstance(pool, gym.vector.VectorEnv):
        raise UsageError(
            'an EnvPool needs the Gymnasium API: envpool.make(…, env_type="gymnasium")'
        )
    name = type(pool).__name__.removesuffix("GymnasiumEnvPool")
    return EnvSource(name, lambda *_: EnvPoolEnv(pool, name), settings["num_envs"])


def _stable_name(env: Any) -> str:
    """The id of the tasks in a VecEnv, or else its type."""
    try:
        spec = env.get_attr("spec")[0]
    except AttributeError:
        spec = None
    return spec.id if spec is not None else type(env).__name__


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(env.unwrapped).__name__
