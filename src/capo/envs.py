"""Vector environments behind one small protocol, with same-step autoreset.

`step` never returns a reset as a transition: `next_obs` is what the action led to, the true final
observation where an episode ended, and `obs` is what to act on next.
"""

import contextlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from capo.config import UsageError
from capo.nesting import stack
from capo.observations import mismatch
from capo.registry import choose_backend, split_id


class EnvError(RuntimeError):
    """An environment misbehaved; the text names its index and the step."""


class EnvTimeoutError(Exception):
    """An environment took too long. No OSError: too many places expect and swallow those."""


def failed(name: str, which: Sequence[int], step: int, error: Exception, why: str = "") -> str:
    """What went wrong in a line: the task, the environments if known, the step, the reason."""
    listed = ", ".join(map(str, which))
    who = f"environment{'s' * (len(which) > 1)} {listed}" if which else "the environments"
    late = isinstance(error, EnvTimeoutError)
    reason = f": {why or error}" if why or late else f" with {type(error).__name__}: {error}"
    return f"{name}: {who} failed {_when(step)}{reason}"


def _when(step: int) -> str:
    return f"at step {step}" if step else "at the reset"


class Step(NamedTuple):
    """What one step of all environments gave; observations are arrays, or dicts of them."""

    obs: Any
    next_obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


@runtime_checkable
class VectorEnv(Protocol):
    """Several copies of one environment, stepped together."""

    backend: str
    num_envs: int
    observation_space: gym.Space
    action_space: gym.Space

    def reset(self, seed: int | None = None) -> Any: ...

    def step(self, actions: np.ndarray) -> Step: ...

    def close(self) -> None: ...


def make(
    env_id: str,
    num_envs: int,
    seed: int,
    backend: str = "auto",
    workers: int | None = 0,
    **kwargs: Any,
) -> "VectorEnv":
    """Builds `num_envs` copies of a registered environment on the backend asked for.

    `workers` are processes that step a share of Gymnasium's (None: what suits the task); EnvPool
    has threads of its own. Imports no module for the id: it may come out of a file. See
    `import_module_of`.
    """
    from capo.processes import ProcessEnv
    from capo.recipes import recipe_of, workers_for

    def factory() -> gym.Env:
        return gym.make(split_id(env_id)[1], **kwargs)

    with quiet():
        if choose_backend(env_id, backend) == "envpool":
            return EnvPoolEnv.make(env_id, num_envs, seed, **kwargs)
        count = workers_for(env_id, workers, num_envs, kwargs)
        if not count:
            return GymnasiumEnv(factory, num_envs, seed, name=env_id)
        return ProcessEnv(env_id, recipe_of(env_id, kwargs), num_envs, seed, count)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps version notices about environments out of the terminal while they are made.

    MuJoCo would also leave a MUJOCO_LOG.TXT in the working folder for each of them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mujoco: Any = importlib.import_module("mujoco")
        previous = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda _: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(previous)


def available_cores() -> int:
    """Cores that this process may use; all of the machine's where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def to_env(space: gym.Space, actions: np.ndarray) -> np.ndarray:
    """Clips continuous actions to the space; shifts discrete ones to where the space begins."""
    if isinstance(space, gym.spaces.Box):
        return np.clip(actions, space.low, space.high)
    if isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        return np.asarray(actions + space.start)
    return actions


class GymnasiumEnv:
    """Gymnasium environments in this process, one after the other."""

    backend = "gymnasium"

    def __init__(
        self,
        factory: Callable[[], gym.Env],
        num_envs: int,
        seed: int,
        name: str = "environment",
        first: int = 0,
    ):
        """`first` is the index of the first of them among all environments of a run."""
        self.name, self.num_envs, self._seed, self._first = name, num_envs, seed, first
        self._envs: list[gym.Env] = []
        try:
            for _ in range(num_envs):
                self._envs.append(factory())
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            raise UsageError(f"{name} needs a package that is missing: {error}") from error
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self._shape = self.observation_space.shape
        self._steps = 0
        self.turn = np.full(1, -1)
        """Which of them is busy, -1 for none; in memory of its own, so that others may look."""

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments, each from its own seed; by default those it was made with."""
        self._steps, start = 0, self._first + (self._seed if seed is None else seed)
        found = []
        for i, env in enumerate(self._envs):
            self.turn[0] = i
            try:
                found.append(env.reset(seed=start + i)[0])
            except Exception as error:
                raise EnvError(failed(self.name, [self._first + i], 0, error)) from error
            self._check(i, found[-1])
        self.turn[0] = -1
        return stack(self.observation_space, found)

    def step(self, actions: np.ndarray) -> Step:
        """Steps each environment once and begins a new episode where one ended."""
        self._steps += 1
        obs: list[Any] = []
        next_obs: list[Any] = []
        rewards = np.empty(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        ended = False
        for i, (env, action) in enumerate(zip(self._envs, actions, strict=True)):
            self.turn[0] = i
            try:
                found, rewards[i], terminated[i], truncated[i], _ = env.step(action)
                self._check(i, found)
                next_obs.append(found)
                if terminated[i] or truncated[i]:
                    ended = True
                    found, _ = env.reset()
                    self._check(i, found)
            except EnvError:
                raise
            except Exception as error:
                raise EnvError(failed(self.name, [self._first + i], self._steps, error)) from error
            obs.append(found)
        self.turn[0] = -1
        reached = stack(self.observation_space, next_obs)
        now = stack(self.observation_space, obs) if ended else reached
        return Step(now, reached, rewards, terminated, truncated)

    def _check(self, index: int, obs: Any) -> None:
        if isinstance(obs, np.ndarray) and obs.shape == self._shape:
            return
        if wrong := mismatch(self.observation_space, obs):
            where = f"environment {self._first + index}"
            when = _when(self._steps)
            raise EnvError(f"{self.name}: {where} does not keep to its space {when}: {wrong}")

    def close(self) -> None:
        """Closes every environment."""
        for env in self._envs:
            env.close()


class EnvPoolEnv:
    """EnvPool's C++ environments, on as many threads as this process has cores."""

    backend = "envpool"

    def __init__(
        self,
        pool: Any,
        name: str = "EnvPool",
        remake: Callable[[int], Any] | None = None,
        fresh: int | None = None,
    ):
        """`remake` makes the same pool from another seed; a pool itself cannot be reseeded.

        `fresh` is the seed of one that nobody has used yet.
        """
        self.name, self.num_envs, self._pool, self._remake = name, len(pool), pool, remake
        self._fresh = fresh
        self._steps = 0
        self.observation_space = self._pool.observation_space
        self.action_space = self._pool.action_space
        self._dtype = self.action_space.dtype

    @staticmethod
    def make(env_id: str, num_envs: int, seed: int, **kwargs: Any) -> "EnvPoolEnv":
        """A pool of `num_envs` copies of one of EnvPool's tasks."""
        import envpool

        options = {"num_threads": min(num_envs, available_cores()), **kwargs}
        if "post_constraint" in envpool.make_spec(env_id).config._fields:
            # Without it EnvPool leaves contact forces at zero, silently.
            options.setdefault("post_constraint", True)

        def pool(seed: int) -> Any:
            with quiet():
                options["seed"] = seed
                return envpool.make(env_id, env_type="gymnasium", num_envs=num_envs, **options)

        return EnvPoolEnv(pool(seed), env_id, pool, seed)

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments; from `seed` only if this is not someone's own pool."""
        self._steps = 0
        if seed is not None and self._remake is not None and seed != self._fresh:
            self._pool.close()
            self._pool = self._remake(seed)
        self._fresh = None
        with quiet():
            return self._ask(self._pool.reset)[0]

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments and resets, in the same step, those whose episode ended."""
        self._steps += 1
        actions = actions.astype(self._dtype)
        next_obs, reward, terminated, truncated, _ = self._ask(self._pool.step, actions)
        obs, done = next_obs, np.flatnonzero(terminated | truncated)
        if done.size:
            obs = next_obs.copy()
            obs[done] = self._ask(self._pool.reset, done.astype(np.int32))[0]
        return Step(obs, next_obs, reward, terminated, truncated)

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:
            raise EnvError(failed(self.name, [], self._steps, error)) from error

    def close(self) -> None:
        """Ends the pool's threads."""
        self._pool.close()
