"""The methods: an update rule, a width, a depth and an aggregation. Nothing else differs."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from capo import consensus
from capo.config import PRESETS, Config, UsageError
from capo.consensus import Consensus, Experts
from capo.experts import UpdateRule
from capo.ppo import ppo_update
from capo.trpo import trpo_update

RULES: dict[str, UpdateRule] = {"ppo": ppo_update, "trpo": trpo_update}


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    update: str
    """The rule that trains an expert; `base` is whatever --base-optimizer says."""
    wide: bool
    """K experts, or one."""
    deep: bool
    """K·E epochs, or E."""
    aggregate: Callable[[Experts], Consensus]
    distill: bool = False
    line_search: bool = False

    def width(self, config: Config) -> int:
        """How many experts a generation trains."""
        return config.experts if self.wide else 1

    def depth(self, config: Config) -> int:
        """How many epochs each of them takes."""
        return config.epochs * config.experts if self.deep else config.epochs

    def rule(self, config: Config) -> UpdateRule:
        """The update of one expert."""
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
    """The row of a name; an unknown one is refused with the nearest."""
    if algo not in METHODS:
        close = difflib.get_close_matches(algo, METHODS, n=1, cutoff=0.0)[0]
        raise UsageError(
            f"unknown algorithm {algo!r}; did you mean {close}? There are {', '.join(METHODS)}"
        )
    return METHODS[algo]


def resolve(config: Config) -> Config:
    """The same configuration with every `auto` settled by the preset and the method's row."""
    method = method_of(config.algo)
    if config.base_optimizer == "trpo" and method.update != "base":
        raise UsageError(
            f"--base-optimizer trpo is for methods with several experts, not {config.algo}; "
            "for TRPO itself use --algo trpo"
        )
    settled = {
        **PRESETS[config.preset],
        "carry": "incumbent" if method.wide else "best",
        "distill": "on" if method.distill else "off",
        "line_search": "on" if method.line_search else "off",
    }
    return config.replace(**{k: v for k, v in settled.items() if getattr(config, k) == "auto"})


def warmup_of(config: Config) -> Config:
    """Plain PPO with the same numbers: what a wide method is warmed up by."""
    names = ("carry", "distill", "line_search", "diversity", "base_optimizer")
    plain = {name: getattr(Config, name) for name in names}
    return resolve(config.replace(algo="ppo", **plain))
