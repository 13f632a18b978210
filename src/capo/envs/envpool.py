"""EnvPool's C++ environments."""

from collections.abc import Callable
from typing import Any

import numpy as np

from capo.core.devices import available_cores
from capo.envs.base import Step, failure_message, quiet, successes_of
from capo.errors import EnvError


class EnvPoolEnv:
    """EnvPool's C++ environments, on at most one thread a core."""

    backend = "envpool"

    def __init__(
        self,
        pool: Any,
        name: str = "EnvPool",
        remake: Callable[[int], Any] | None = None,
        unused_seed: int | None = None,
    ):
        """`remake` makes the same pool from another seed, because a pool cannot be reseeded.

        `unused_seed` is the seed of a pool that has not been reset yet.
        """
        self.name, self.num_envs, self._pool, self._remake = name, len(pool), pool, remake
        self._unused_seed = unused_seed
        self._steps = 0
        self.observation_space = self._pool.observation_space
        self.action_space = self._pool.action_space
        self._dtype = self.action_space.dtype

    @staticmethod
    def make(env_id: str, num_envs: int, seed: int, **kwargs: Any) -> "EnvPoolEnv":
        """Makes a pool of `num_envs` copies of an EnvPool task."""
        import envpool

        options = {"num_threads": min(num_envs, available_cores()), **kwargs}
        if "post_constraint" in envpool.make_spec(env_id).config._fields:
            # EnvPool's default silently leaves contact forces at zero.
            options.setdefault("post_constraint", True)

        def pool(seed: int) -> Any:
            with quiet():
                options["seed"] = seed
                return envpool.make(env_id, env_type="gymnasium", num_envs=num_envs, **options)

        return EnvPoolEnv(pool(seed), env_id, pool, seed)

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments; `seed` has no effect on a pool that the user made."""
        self._steps = 0
        if seed is not None and self._remake is not None and seed != self._unused_seed:
            self._pool.close()
            self._pool = self._remake(seed)
        self._unused_seed = None
        with quiet():
            return self._call(self._pool.reset)[0]

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments and resets those whose episode ended."""
        self._steps += 1
        actions = actions.astype(self._dtype)
        next_obs, reward, terminated, truncated, info = self._call(self._pool.step, actions)
        obs, done = next_obs, np.flatnonzero(terminated | truncated)
        if done.size:
            obs = next_obs.copy()
            obs[done] = self._call(self._pool.reset, done.astype(np.int32))[0]
        success = successes_of(info, self.num_envs)
        return Step(obs, next_obs, reward, terminated, truncated, success)

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            raise EnvError(failure_message(self.name, [], self._steps, error)) from error

    def close(self) -> None:
        """Closes the pool."""
        self._pool.close()
