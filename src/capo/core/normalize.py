"""Running statistics of observations and returns: one estimate for all environments.

They are part of the train state and of every saved model. They are kept on the host in float64 and
updated once per generation, so that a batch is collected by a fixed function of the observation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

CLIP = 10.0
EPSILON = 1e-8

Rows = Float[np.ndarray, "rows *shape"]


class RunningStats(NamedTuple):
    """Mean, variance and number of samples."""

    mean: Float[np.ndarray, "*shape"]
    var: Float[np.ndarray, "*shape"]
    seen: Float[np.ndarray, ""]

    @staticmethod
    def init(shape: tuple[int, ...] = ()) -> "RunningStats":
        """Mean 0, variance 1, no samples."""
        return RunningStats(np.zeros(shape), np.ones(shape), np.zeros(()))

    def update(self, rows: Rows) -> "RunningStats":
        """Merges a block of samples (Chan's parallel formula)."""
        mean, var, count = rows.mean(axis=0), rows.var(axis=0), rows.shape[0]
        total = self.seen + count
        delta = mean - self.mean
        square = self.var * self.seen + var * count + delta**2 * self.seen * count / total
        return RunningStats(
            mean=np.asarray(self.mean + delta * count / total, np.float64),
            var=np.asarray(square / total, np.float64),
            seen=np.asarray(total, np.float64),
        )

    def normalize(self, x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """(x − mean) / std, clipped at ±10, as float32."""
        return self.normalizer()(x)

    def normalizer(self) -> Callable[[np.ndarray], np.ndarray]:
        """`normalize` as a function that computes the deviation once."""
        mean, std = self.mean, np.sqrt(self.var + EPSILON)

        def normalize(x: np.ndarray) -> np.ndarray:
            z = x - mean
            z /= std
            return np.clip(z, -CLIP, CLIP, out=z).astype(np.float32)

        return normalize

    def scale(self, x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """X / std, clipped at ±10, as float32: rewards keep their sign."""
        return np.clip(x / np.sqrt(self.var + EPSILON), -CLIP, CLIP).astype(np.float32)


def as_float32(x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """The identity in place of `normalize` and `scale`, as float32."""
    return np.asarray(x, np.float32)


def discounted_returns(
    rewards: Float[np.ndarray, "steps *envs"],
    done: np.ndarray,
    start: Float[np.ndarray, "*envs"],
    gamma: float | np.ndarray,
) -> tuple[Float[np.ndarray, "steps *envs"], Float[np.ndarray, "*envs"]]:
    """Forward accumulators R_t = γ R_{t−1} + r_t, reset after each episode.

    Rewards are divided by their deviation. Returns all R_t, and the accumulators for the next
    batch.
    """
    out = np.empty_like(rewards)
    running = start
    for t, (reward, ended) in enumerate(zip(rewards, done, strict=True)):
        out[t] = gamma * running + reward
        running = np.where(ended, 0.0, out[t])
    return out, running
