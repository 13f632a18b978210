"""Nested observations: Dicts and Tuples of arrays."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np


def parts_of(space: gym.Space) -> list[tuple[Any, gym.Space]]:
    """Keys and subspaces of a Dict or Tuple, in its order."""
    parts = getattr(space, "spaces", {})
    return list(parts.items() if isinstance(parts, dict) else enumerate(parts))


def stack(
    space: gym.Space, observations: Sequence[Any], join: Callable[..., Any] = np.array
) -> Any:
    """Stacks observations leaf by leaf on a new first axis (or by `join`)."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return join(observations)
    stacked = {
        key: stack(part, [obs[key] for obs in observations], join) for key, part in parts_of(space)
    }
    return stacked if isinstance(space, gym.spaces.Dict) else tuple(stacked.values())


def leaves(space: gym.Space, obs: Any) -> Iterator[Any]:
    """Leaves of a nested observation, or of a nested space."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        yield obs
        return
    for key, part in parts_of(space):
        yield from leaves(part, obs[key])


def nest(space: gym.Space, parts: Iterator[Any]) -> Any:
    """The inverse of `leaves`."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return next(parts)
    nested = {key: nest(part, parts) for key, part in parts_of(space)}
    return nested if isinstance(space, gym.spaces.Dict) else tuple(nested.values())
