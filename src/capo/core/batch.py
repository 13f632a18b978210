"""The data of one generation."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Num, Shaped


class Batch(NamedTuple):
    """T steps of N environments, normalised. Several batches are stacked on a further first axis.

    `next_obs` is the observation after each action, the true final one where an episode ended.
    """

    obs: Shaped[Any, "steps envs *obs"]
    next_obs: Shaped[Any, "steps envs *obs"]
    actions: Num[Any, "steps envs *event"]
    rewards: Float[Any, "steps envs"]
    terminated: Bool[Any, "steps envs"]
    truncated: Bool[Any, "steps envs"]
