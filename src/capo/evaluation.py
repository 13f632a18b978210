"""Evaluation of a model: whole episodes with frozen statistics."""

import math
from typing import Any, NamedTuple

import numpy as np

from capo.envs.adapters import choose_source, encode_observations
from capo.envs.base import VectorEnv
from capo.errors import check_least
from capo.model import Model, check_fit
from capo.report.statistics import standard_error

MAX_ENVS = 32
SEED_OFFSET = 1_000_003
"""Offset of the evaluation seed from the training seed."""


class Evaluation(NamedTuple):
    """Returns and lengths of evaluation episodes."""

    returns: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean return; NaN with one episode."""
        return float(standard_error(np.array(self.returns, float)))

    def describe(self) -> str:
        """One line: return, standard error, episodes, length."""
        count = len(self.returns)
        error, plural = ("", "") if count == 1 else (f" ± {self.standard_error:.1f} (SE)", "s")
        length = sum(self.lengths) / count
        return f"return {self.mean:.1f}{error} over {count} episode{plural}, length {length:.0f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        error = self.standard_error
        return {
            "mean": self.mean,
            "standard_error": None if math.isnan(error) else error,
            "mean_length": float(np.mean(self.lengths)),
            "episodes": len(self.returns),
            "returns": self.returns,
            "lengths": self.lengths,
        }


def episode_seed(model: Model, seed: int | None) -> int:
    """The seed of the first episode; by default derived from the seed of the run."""
    return (model.config.seed + SEED_OFFSET if seed is None else seed) % 2**31


def evaluate(
    model: Model,
    episodes: int = 20,
    seed: int | None = None,
    deterministic: bool = True,
    env: Any = None,
) -> Evaluation:
    """Plays `episodes` episodes in new environments of the model's own task, or in `env`.

    `env` is an id, a Gymnasium Env, a function that makes one, a VectorEnv or an EnvPool.
    """
    check_least("episodes", episodes)
    config, seed = model.config, episode_seed(model, seed)
    source = choose_source(config, env)
    played = source.make(min(episodes, MAX_ENVS), seed)
    try:
        check_fit(model, played.observation_space, played.action_space, source.name)
        return play(model, played, episodes, deterministic, np.random.default_rng(seed))
    finally:
        if source.fixed_num_envs is None:
            played.close()


def play(
    model: Model, env: VectorEnv, episodes: int, deterministic: bool, rng: np.random.Generator
) -> Evaluation:
    """Plays `episodes` episodes, a fixed number in each environment.

    The first episodes to end in any environment would be biased towards short ones.
    """
    quota = np.full(env.num_envs, episodes // env.num_envs)
    quota[: episodes % env.num_envs] += 1
    total, length = np.zeros(env.num_envs), np.zeros(env.num_envs, int)
    result = Evaluation([], [])
    env = encode_observations(env, model.config)
    obs = env.reset()
    while quota.any():
        step = env.step(model.act(obs, deterministic, rng))
        obs = step.obs
        total += step.reward
        length += 1
        for i in np.flatnonzero(step.terminated | step.truncated):
            if quota[i]:
                result.returns.append(float(total[i]))
                result.lengths.append(int(length[i]))
                quota[i] -= 1
            total[i], length[i] = 0.0, 0
    return result
