"""Whatever a user calls an environment, as the vector environments of the loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from capo.config import Config, UsageError
from capo.envs import EnvError, EnvPoolEnv, GymnasiumEnv, Step, VectorEnv, failed, make, quiet
from capo.observations import Encoder
from capo.registry import import_module_of
from capo.timeouts import Alarm, TimedEnv
from capo.workers import culprits, end, sound


class EncodedEnv:
    """A vector environment whose observations are what the network reads."""

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
        """Steps all environments; where an episode ended, the stack of frames begins anew."""
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


def encoded(env: VectorEnv, config: Config) -> VectorEnv:
    """The environment as the network is to see it."""
    encoder = Encoder.of(config, env.observation_space)
    return env if encoder.plain or isinstance(env, EncodedEnv) else EncodedEnv(env, encoder)


class GymnasiumVectorEnv:
    """A vector environment of Gymnasium's, brought to reset in the same step."""

    backend = "gymnasium vector"

    def __init__(self, env: gym.vector.VectorEnv, seed: int):
        self.num_envs, self._env, self._seed = env.num_envs, env, seed
        self.name, self._steps = _name(env), 0
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        if self._mode is AutoresetMode.NEXT_STEP and not _resets_on_request(env.unwrapped):
            raise UsageError(
                f"{type(env.unwrapped).__name__} resets in the step after an episode's end, which "
                "would put resets into the batch; make it with autoreset_mode=SAME_STEP or "
                'DISABLED, or with gym.make_vec(…, vectorization_mode="sync")'
            )

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments, by default from the seed it was made with."""
        self._steps = 0
        return self._ask(self._env.reset, seed=self._seed if seed is None else seed)[0]

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments and resets those whose episode ended."""
        self._steps += 1
        found, reward, terminated, truncated, info = self._ask(self._env.step, actions)
        done = terminated | truncated
        obs = next_obs = found
        if done.any() and self._mode is AutoresetMode.SAME_STEP:
            next_obs = _replace_rows(self.observation_space, found, done, info["final_obs"])
        elif done.any():
            next_obs = _copy(found)
            obs = self._ask(self._env.reset, options={"reset_mask": done})[0]
        return Step(obs, next_obs, reward, terminated, truncated)

    def _ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls; on an error, ends the worker processes there are: they are of no use any more."""
        try:
            return call(*args, **kwargs)
        except Exception as error:
            Alarm.stand_down()
            which, why = culprits(self._env.unwrapped, error)
            end(self._env.unwrapped)
            raise EnvError(failed(self.name, which, self._steps, error, why)) from error

    def close(self) -> None:
        """Closes the environments; worker processes that cannot be asked to end are ended."""
        if not sound(self._env.unwrapped):
            end(self._env.unwrapped)
        self._env.close()


def _resets_on_request(env: Any) -> bool:
    """Whether `reset_mask` also takes back the reset that the next step would do."""
    if isinstance(env, AsyncVectorEnv):
        return bool(env.shared_memory)
    return isinstance(env, SyncVectorEnv)


def _copy(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _copy(part) for key, part in obs.items()}
    return tuple(map(_copy, obs)) if isinstance(obs, tuple) else np.array(obs)


def _replace_rows(space: gym.Space, obs: Any, rows: np.ndarray, values: Any) -> Any:
    """A copy of a batch of observations with some rows taken from a list of observations."""
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
class Source:
    """Where a learner's environments come from."""

    name: str
    make: "Maker"
    fixed: int | None
    """How many there are, if that is not ours to choose: they are the user's own, made once."""


class Maker(Protocol):
    """What makes environments; `workers` are meant for those of an id, to learn in."""

    def __call__(self, count: int, seed: int, workers: int | None = 0, /) -> VectorEnv: ...


def own_source(config: Config) -> Source:
    """A configuration's own task. It may come out of a file: no module is imported for it."""
    return _id_source(config.env_id, config.backend)


def _id_source(env_id: str, backend: str) -> Source:
    return Source(env_id, lambda n, seed, w=0: make(env_id, n, seed, backend, w), None)


def source_for(config: Config, env: Any = None) -> Source:
    """What a person passed for an environment, or else the configuration's own task."""
    return own_source(config) if env is None else source_of(env, config.backend)


def source_of(env: Any, backend: str = "auto") -> Source:
    """Takes an id, a Gymnasium Env, a function that makes one, a VectorEnv, or an EnvPool.

    The module of an id `module:id` is imported: for ids that a person wrote.
    """
    if isinstance(env, str):
        import_module_of(env)
        return _id_source(env, backend)
    if isinstance(env, Source):
        return env
    if hasattr(env, "all_env_ids"):
        return _pool_source(env)
    if isinstance(env, gym.vector.VectorEnv):
        name = _name(env)
        return Source(name, lambda _, seed, *__: GymnasiumVectorEnv(env, seed), env.num_envs)
    if isinstance(env, gym.Env):
        name = _name(env)
        return Source(name, lambda _, seed, *__: GymnasiumEnv(lambda: env, 1, seed, name), 1)
    if isinstance(env, VectorEnv):
        return Source(type(env).__name__, lambda *_: env, env.num_envs)
    if callable(env):
        return _factory_source(env)
    raise UsageError(
        f"an environment is an id, a gymnasium.Env, a function that makes one, a "
        f"gymnasium.vector.VectorEnv or an EnvPool, not {type(env).__name__}"
    )


def timed(source: Source, seconds: float, hard: bool = False) -> Source:
    """The same environments with a limit, wherever they are made."""

    def limited(count: int, seed: int, workers: int | None = 0) -> VectorEnv:
        return TimedEnv(source.make(count, seed, workers), source.name, seconds, hard)

    return replace(source, make=limited)


def _factory_source(factory: Callable[[], Any]) -> Source:
    with quiet():
        first = factory()
    if not isinstance(first, gym.Env):
        raise UsageError(f"the function must make a gymnasium.Env, it made {type(first).__name__}")
    name = _name(first)
    first.close()
    return Source(name, lambda n, seed, *_: GymnasiumEnv(factory, n, seed, name), None)


def _pool_source(pool: Any) -> Source:
    settings = pool.config
    if settings["batch_size"] != settings["num_envs"]:
        raise UsageError("an EnvPool must step all its environments: batch_size = num_envs")
    if not isinstance(pool, gym.vector.VectorEnv):
        raise UsageError('an EnvPool must speak Gymnasium: envpool.make(…, env_type="gymnasium")')
    name = type(pool).__name__.removesuffix("GymnasiumEnvPool")
    return Source(name, lambda *_: EnvPoolEnv(pool, name), settings["num_envs"])


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(env.unwrapped).__name__
