"""Observations made of parts: a Dict or Tuple of arrays, of Dicts, of Tuples."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np


def parts_of(space: gym.Space) -> list[tuple[Any, gym.Space]]:
    """The keys and spaces that a Dict or Tuple is made of, in its order."""
    parts = getattr(space, "spaces", {})
    return list(parts.items() if isinstance(parts, dict) else enumerate(parts))


def stack(
    space: gym.Space, observations: Sequence[Any], join: Callable[..., Any] = np.array
) -> Any:
    """Several observations as one, each part with an axis in front (or joined as `join` does)."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return join(observations)
    found = {
        key: stack(part, [obs[key] for obs in observations], join) for key, part in parts_of(space)
    }
    return found if isinstance(space, gym.spaces.Dict) else tuple(found.values())


def leaves(space: gym.Space, obs: Any) -> Iterator[Any]:
    """The parts of an observation, or of the space itself, that have no parts themselves."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        yield obs
        return
    for key, part in parts_of(space):
        yield from leaves(part, obs[key])


def nest(space: gym.Space, parts: Iterator[Any]) -> Any:
    """The inverse of `leaves`."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return next(parts)
    found = {key: nest(part, parts) for key, part in parts_of(space)}
    return found if isinstance(space, gym.spaces.Dict) else tuple(found.values())
