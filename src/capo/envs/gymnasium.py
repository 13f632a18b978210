"""Gymnasium environments in this process, stepped one after the other."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from capo.core.encoding import mismatch
from capo.core.nesting import stack
from capo.envs.base import Step, describe_step, failure_message, success_of
from capo.errors import EnvError, UsageError


class GymnasiumEnv:
    """Gymnasium environments in this process, stepped one after the other."""

    backend = "gymnasium"

    def __init__(
        self,
        factory: Callable[[], gym.Env],
        num_envs: int,
        seed: int,
        name: str = "environment",
        first: int = 0,
    ):
        """`first` is the index of the first environment among all environments of a run."""
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
        self.active = np.full(1, -1)
        """Index of the environment being stepped, -1 for none; an array, to be shared in memory."""

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments, each from its own seed; default: the seed of the constructor."""
        self._steps, start = 0, self._first + (self._seed if seed is None else seed)
        observations = []
        for i, env in enumerate(self._envs):
            self.active[0] = i
            try:
                observations.append(env.reset(seed=start + i)[0])
            except Exception as error:
                raise EnvError(failure_message(self.name, [self._first + i], 0, error)) from error
            self._check(i, observations[-1])
        self.active[0] = -1
        return stack(self.observation_space, observations)

    def step(self, actions: np.ndarray) -> Step:
        """Steps every environment and resets those whose episode ended."""
        self._steps += 1
        obs: list[Any] = []
        next_obs: list[Any] = []
        rewards = np.empty(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        success = np.full(self.num_envs, np.nan)
        ended = False
        for i, (env, action) in enumerate(zip(self._envs, actions, strict=True)):
            self.active[0] = i
            try:
                reached, rewards[i], terminated[i], truncated[i], info = env.step(action)
                self._check(i, reached)
                next_obs.append(reached)
                if terminated[i] or truncated[i]:
                    ended, success[i] = True, success_of(info)
                    reached, _ = env.reset()
                    self._check(i, reached)
            except EnvError:
                raise
            except Exception as error:
                message = failure_message(self.name, [self._first + i], self._steps, error)
                raise EnvError(message) from error
            obs.append(reached)
        self.active[0] = -1
        stacked = stack(self.observation_space, next_obs)
        current = stack(self.observation_space, obs) if ended else stacked
        return Step(current, stacked, rewards, terminated, truncated, success)

    def _check(self, index: int, obs: Any) -> None:
        if isinstance(obs, np.ndarray) and obs.shape == self._shape:
            return
        if reason := mismatch(self.observation_space, obs):
            raise EnvError(
                f"{self.name}: environment {self._first + index} violates its observation space "
                f"{describe_step(self._steps)}: {reason}"
            )

    def close(self) -> None:
        """Closes the environments."""
        for env in self._envs:
            env.close()
