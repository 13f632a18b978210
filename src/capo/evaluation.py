"""Evaluation of a model: whole episodes with frozen statistics."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from capo.envs.adapters import choose_source, encode_observations
from capo.envs.base import VectorEnv
from capo.errors import check_least
from capo.model import Model, check_fit
from capo.statistics import standard_error

MAX_ENVS = 32
MAX_STEPS = 50_000
"""Steps after which an evaluation cuts an episode: tasks without a time limit may never end one."""
SEED_OFFSET = 1_000_003
"""Offset of the evaluation seed from the training seed."""


class Evaluation(NamedTuple):
    """Returns and lengths of evaluation episodes."""

    returns: list[float]
    lengths: list[int]
    cut: int = 0
    """Number of episodes that were cut because they did not end."""
    successes: Sequence[float] = ()
    """Of the episodes whose environment says whether they succeeded (`info["is_success"]`)."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean return; NaN with one episode."""
        return float(standard_error(np.array(self.returns, float)))

    @property
    def success_rate(self) -> float:
        """Share of successful episodes; NaN if the environment does not say."""
        return float(np.mean(self.successes)) if self.successes else math.nan

    def describe(self) -> str:
        """One line: return, standard error, episodes, length, success."""
        count = len(self.returns)
        error, plural = ("", "") if count == 1 else (f" ± {self.standard_error:.1f} (SE)", "s")
        length = sum(self.lengths) / count
        text = f"return {self.mean:.1f}{error} over {count} episode{plural}, length {length:.0f}"
        text += f", success {100 * self.success_rate:.0f}%" if self.successes else ""
        return text + (f" ({self.cut} cut, which had not ended)" if self.cut else "")

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
            "cut": self.cut,
            **({"success_rate": self.success_rate} if self.successes else {}),
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
    max_steps: int = MAX_STEPS,
) -> Evaluation:
    """Plays `episodes` episodes in new environments of the model's own task, or in `env`.

    `env` is an id, a Gymnasium Env, a function that makes one, a VectorEnv or an EnvPool. An
    episode of `max_steps` is cut there: it counts with its return so far and goes on as the next.
    """
    check_least("episodes", episodes)
    check_least("max_steps", max_steps)
    config, seed = model.config, episode_seed(model, seed)
    source = choose_source(config, env)
    played = source.make(min(episodes, MAX_ENVS), seed)
    try:
        check_fit(model, played.observation_space, played.action_space, source.name)
        rng = np.random.default_rng(seed)
        return play(model, played, episodes, deterministic, rng, max_steps)
    finally:
        if source.fixed_num_envs is None:
            played.close()


def play(
    model: Model,
    env: VectorEnv,
    episodes: int,
    deterministic: bool,
    rng: np.random.Generator,
    max_steps: int = MAX_STEPS,
) -> Evaluation:
    """Plays `episodes` episodes, a fixed number in each environment.

    The first episodes to end in any environment would be biased towards short ones.
    """
    quota = np.full(env.num_envs, episodes // env.num_envs)
    quota[: episodes % env.num_envs] += 1
    total, length = np.zeros(env.num_envs), np.zeros(env.num_envs, int)
    returns: list[float] = []
    lengths: list[int] = []
    successes: list[float] = []
    cut = 0
    env = encode_observations(env, model.config)
    obs = env.reset()
    while quota.any():
        step = env.step(model.act(obs, deterministic, rng))
        obs = step.obs
        total += step.reward
        length += 1
        done = step.terminated | step.truncated
        for i in np.flatnonzero(done | (length >= max_steps)):
            if quota[i]:
                if step.success is not None and not math.isnan(step.success[i]):
                    successes.append(float(step.success[i]))
                returns.append(float(total[i]))
                lengths.append(int(length[i]))
                cut += not done[i]
                quota[i] -= 1
            total[i], length[i] = 0.0, 0
    return Evaluation(returns=returns, lengths=lengths, cut=cut, successes=tuple(successes))
