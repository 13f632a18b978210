"""Keys of runs: the part of a configuration that decides the numbers of a run."""

import functools
from typing import Any, NamedTuple

from capo.config import Config
from capo.fields import names_where
from capo.methods import settle

OWN_PLACE = frozenset({"total_steps", "seed"})
"""Fields that have their own place in a key."""


class RunKey(NamedTuple):
    """Two runs with equal keys have the same numbers."""

    settings: tuple[Any, ...]
    """Values of all other fields that decide the numbers: equal for the seeds of one variant."""
    total_steps: int
    seed: int


@functools.cache
def run_key(config: Config) -> RunKey:
    """The key of a run whose fields of the network are settled, as those of every saved run are."""
    whole = settle(config)
    decisive = (name for name in names_where(Config, decisive=True) if name not in OWN_PLACE)
    settings = tuple(getattr(whole, name) for name in decisive)
    return RunKey(settings=settings, total_steps=whole.total_steps, seed=whole.seed)
