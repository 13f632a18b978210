"""Keys of runs: the part of a settled configuration that decides the numbers of a run."""

import functools
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from capo.config import Config
from capo.fields import names_where
from capo.methods import settle

OWN_PLACE = frozenset({"total_steps", "seed"})
"""Fields that have their own place in a key."""
OBSERVATIONS = gym.spaces.Box(-np.inf, np.inf, (1,))
"""An observation space of the kind that all tasks of the paper have: a vector."""


class RunKey(NamedTuple):
    """Two runs with equal keys have the same numbers."""

    settings: tuple[Any, ...]
    """Values of all other fields that decide the numbers: equal for the seeds of one variant."""
    total_steps: int
    seed: int


def settled(config: Config) -> Config:
    """The configuration with every `auto` replaced by its meaning for the paper's tasks."""
    return settle(config, OBSERVATIONS).plain()


@functools.cache
def run_key(config: Config) -> RunKey:
    """The key of a run; a field that is still `auto` counts as what it means."""
    whole = settled(config)
    decisive = (name for name in names_where(Config, decisive=True) if name not in OWN_PLACE)
    return RunKey(tuple(getattr(whole, name) for name in decisive), whole.total_steps, whole.seed)
