"""The table of methods: an update rule, a width, a depth and an aggregation each."""

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from capo.config import Config
from capo.core import consensus
from capo.core.consensus import Consensus, Experts
from capo.core.encoding import network_for
from capo.core.experts import UpdateRule
from capo.core.ppo import ppo_update
from capo.core.settings import ExpertSettings, PolicySettings, ValueSettings
from capo.core.tracing import part
from capo.core.trpo import trpo_update
from capo.errors import UsageError, name_of
from capo.fields import names_where
from capo.presets import preset_values

RULES: dict[str, UpdateRule] = {"ppo": ppo_update, "trpo": trpo_update}


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    update: str
    """Name of the rule that trains an expert; `base`: the rule in `base_optimizer`."""
    wide: bool
    """K experts, or one."""
    deep: bool
    """K·E epochs, or E."""
    aggregate: Callable[[Experts], Consensus]
    distill: bool = False
    line_search: bool = False

    def width(self, config: ExpertSettings) -> int:
        """Experts per generation."""
        return config.experts if self.wide else 1

    def depth(self, config: PolicySettings) -> int:
        """Epochs per expert."""
        return config.epochs * config.experts if self.deep else config.epochs

    def batches(self, config: ExpertSettings) -> int:
        """Batches that an update learns from."""
        return config.experts if self.wide and config.diversity == "batches" else config.reuse

    def rule(self, config: ExpertSettings) -> UpdateRule:
        """The update rule of an expert."""
        return RULES[config.base_optimizer if self.update == "base" else self.update]


METHODS: dict[str, Method] = {
    # name              update   wide   deep   aggregate
    "ppo": Method("ppo", False, False, consensus.identity),
    "ppo-kx": Method("ppo", False, True, consensus.identity),
    "ppo-swa": Method("ppo", False, False, consensus.mean_iterate),
    "best-of-k": Method("base", True, False, consensus.best),
    "trpo": Method("trpo", False, False, consensus.identity),
    "capo-avg": Method("base", True, False, consensus.average),
    "capo": Method("base", True, False, consensus.logop, distill=True, line_search=True),
}


def method_of(algo: str) -> Method:
    """The row of a name; the error for an unknown one suggests the nearest."""
    if algo not in METHODS:
        close = difflib.get_close_matches(algo, METHODS, n=1, cutoff=0.0)[0]
        raise UsageError(
            f"unknown algorithm {algo!r}; did you mean {close}? There are {', '.join(METHODS)}"
        )
    return METHODS[algo]


@dataclass(frozen=True)
class Settled(Config):
    """A configuration with every `auto` replaced, and the row of its method."""

    method: Method = field(default=METHODS[Config.algo], kw_only=True, repr=False)

    @property
    def batches(self) -> int:
        """Number of batches that an update learns from."""
        return self.method.batches(self)

    def plain(self) -> Config:
        """The values without the row, as a model keeps them."""
        return Config(**self.to_dict())

    @functools.cached_property
    def for_policy(self) -> PolicySettings:
        """What the update of the policy reads."""
        return part(PolicySettings, self)

    @functools.cached_property
    def for_value(self) -> ValueSettings:
        """What the value fit reads."""
        return part(ValueSettings, self)

    @functools.cached_property
    def lone(self) -> "Settled":
        """Plain PPO with the same numbers, which warms up a method with several experts."""
        of_method = names_where(Config, of_method=True)
        kept = {name: value for name, value in self.to_dict().items() if name not in of_method}
        return settle(Config(**{**kept, "algo": "ppo"}))

    @property
    def warms_up(self) -> bool:
        """Whether plain PPO comes first."""
        return self.method.wide and self.warmup > 0

    def replace(self, **changes: Any) -> "Settled":
        """A copy with some fields changed; not those that decide the values of others."""
        for name in FIXED:
            if name in changes and changes[name] != getattr(self, name):
                raise TypeError(f"{name} decides other values of a settled configuration")
        return super().replace(**changes)


FIXED = ("algo", "preset")
"""Fields that decide the values of others."""


def settle(config: Config, observation_space: gym.Space | None = None) -> Settled:
    """Replaces every `auto` by what the preset, the method and the observation space mean by it.

    Idempotent. Without a space the fields of the network stay `auto`: an update does not read them.
    Called where a configuration comes in: from the command line, a class or a file.
    """
    if not isinstance(config, Settled):
        config = _of_method(config)
    if observation_space is None:
        return config
    return config.replace(**network_for(config, observation_space))


def _of_method(config: Config) -> Settled:
    """Settles what the preset and the row of the method decide."""
    method = method_of(config.algo)
    if config.base_optimizer == "trpo" and method.update != "base":
        raise UsageError(
            f"{name_of('base_optimizer', 'trpo')} is for methods with several experts, "
            f"not {config.algo}; for TRPO itself use {name_of('algo', 'trpo')}"
        )
    if config.diversity == "batches" and config.reuse > 1:
        raise UsageError(
            f"{name_of('diversity', 'batches')} gives each expert a batch of its own; "
            f"leave {name_of('reuse')} out"
        )
    paper = config.preset == "paper"
    kept = "average" if config.diversity == "batches" else "incumbent"
    auto = {
        **preset_values(config.preset, config.algo),
        "carry": ("counter" if paper else kept) if method.wide else "best",
        "distill": ("adam" if paper else "on") if method.distill else "off",
        "line_search": "on" if method.line_search else "off",
    }
    values = config.to_dict()
    values |= {name: value for name, value in auto.items() if values[name] == "auto"}
    return Settled(**values, method=method)
