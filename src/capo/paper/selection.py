"""Which runs an experiment needs, under the names that make equal runs one run."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from capo.config import Config, UsageError, flag, parse_steps
from capo.format import compact
from capo.methods import resolve
from capo.paper.design import Experiment, Variant
from capo.paper.experiments import CHEETAH, EXPERIMENTS, paper_steps

SMOKE_SIZES = {"num_envs": 2, "num_steps": 128, "minibatches": 2, "hidden": (8,)}
"""As small as a run can be that still goes through everything, to the end of an episode."""
SMOKE_STEPS, SHORT_STEPS = 2560, 200_000
NOT_IN_THE_NAME = {"env_id", "algo", "seed", "total_steps", "preset", "backend", "workers"}


class Selection(NamedTuple):
    """What of an experiment is wanted; None is the paper's own choice."""

    envs: tuple[str, ...] | None = None
    algos: tuple[str, ...] | None = None
    seeds: int | None = None
    steps: int | None = None
    preset: str = "default"
    sizes: tuple[tuple[str, Any], ...] = ()
    """Other sizes than the paper's, for a trial."""
    brief: bool = False
    """Only one task, and of all variants only the usual ones and the last."""

    def narrowed(self, **given: Any) -> "Selection":
        """With what was asked for in place of the tier's or the paper's."""
        return self._replace(**{name: value for name, value in given.items() if value})

    @staticmethod
    def of_tier(tier: str) -> "Selection":
        """`full` is the paper's; `short` is for a first look, `smoke` to see that it works."""
        if tier == "smoke":
            sizes = tuple(SMOKE_SIZES.items())
            return Selection(seeds=1, steps=SMOKE_STEPS, sizes=sizes, brief=True)
        return Selection(seeds=2, steps=SHORT_STEPS) if tier == "short" else Selection()

    def steps_on(self, env_id: str) -> int:
        """Environment steps of a run on a task."""
        return self.steps or paper_steps(env_id)

    @property
    def as_published(self) -> bool:
        """Whether batches and networks have the paper's sizes."""
        return not self.sizes


class Cell(NamedTuple):
    """The runs that differ in nothing but their seed and their length."""

    begin: str
    settings: str

    def name(self, steps: int, seed: int) -> str:
        """The name of one of them."""
        return "__".join(filter(None, [self.begin, _steps(steps), self.settings, str(seed)]))

    def holds(self, name: str) -> bool:
        """Whether a name is of one of them."""
        env_id, algo, *rest = name.split("__")
        return len(rest) > 1 and (f"{env_id}__{algo}", "__".join(rest[1:-1])) == self


class Run(NamedTuple):
    """One run: its name says all that its configuration has of its own."""

    name: str
    config: Config
    words: tuple[str, ...]
    """What follows `capo train`."""


@functools.cache
def run_of(env_id: str, variant: Variant, seed: int, chosen: Selection) -> Run:
    """The run of a variant; one whose changes are no changes is the plain method's."""
    config, changed = _settled(env_id, variant, chosen)
    config = config.replace(seed=seed)
    steps = config.total_steps
    words = [env_id, "--algo", variant.algo, "-n", _steps(steps), "--seed", str(seed)]
    words += ["--preset", chosen.preset] if chosen.preset != Config.preset else []
    for name, value in changed.items():
        words += [flag(name), *map(str, value if isinstance(value, tuple) else (value,))]
    return Run(cell_of(env_id, variant, chosen).name(steps, seed), config, tuple(words))


def cell_of(env_id: str, variant: Variant, chosen: Selection) -> Cell:
    """What the runs of a variant have in common."""
    _, changed = _settled(env_id, variant, chosen)
    parts = [f"preset={chosen.preset}"] if chosen.preset != Config.preset else []
    parts += [f"{name}={_said(value)}" for name, value in changed.items()]
    return Cell(f"{env_id}__{variant.algo}", "__".join(parts))


@functools.cache
def _settled(env_id: str, variant: Variant, chosen: Selection) -> tuple[Config, dict[str, Any]]:
    """The configuration, and in what it differs from the plain method's."""
    common = {
        "algo": variant.algo,
        "total_steps": chosen.steps_on(env_id),
        "preset": chosen.preset,
    }
    sizes = dict(chosen.sizes)
    plain = resolve(Config(env_id, **{**common, "total_steps": Config.total_steps}))
    config = resolve(Config(env_id, **common, **sizes, **dict(variant.changes)))
    changed = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(Config)
        if field.name not in NOT_IN_THE_NAME
        and getattr(config, field.name) != getattr(plain, field.name)
    }
    return config, changed


def _steps(count: int) -> str:
    """1M, 200k, or all digits where that would not be exact."""
    short = compact(count)
    return short if parse_steps(short) == count else str(count)


def _said(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


def envs_of(experiment: Experiment, chosen: Selection) -> tuple[str, ...]:
    """The tasks: those that were asked for, or else the experiment's own."""
    if chosen.envs is not None:
        return chosen.envs
    if not chosen.brief:
        return experiment.envs
    # The task that most experiments have, so that they share their runs.
    return (CHEETAH,) if CHEETAH in experiment.envs else experiment.envs[:1]


def variants_of(experiment: Experiment, chosen: Selection) -> tuple[Variant, ...]:
    """The experiment's variants of the methods that were asked for."""
    found = [v for v in experiment.variants if chosen.algos is None or v.algo in chosen.algos]
    if chosen.brief:
        found = [v for v in found if _usual(v) or v == found[-1]]
    return tuple(found)


def _usual(variant: Variant) -> bool:
    """Whether its changes are no changes."""
    return not _settled(CHEETAH, variant, Selection())[1]


def seeds_of(experiment: Experiment, chosen: Selection) -> range:
    """1, 2, …"""
    return range(1, (chosen.seeds or experiment.seeds) + 1)


def runs_of(names: Sequence[str], chosen: Selection) -> list[Run]:
    """All runs of some experiments, each once, the first seed of everything first."""
    found: dict[str, tuple[int, Run]] = {}
    for name in names:
        experiment = EXPERIMENTS[name]
        for seed in seeds_of(experiment, chosen):
            for env_id in envs_of(experiment, chosen):
                for variant in variants_of(experiment, chosen):
                    run = run_of(env_id, variant, seed, chosen)
                    found.setdefault(run.name, (seed, run))
    if not found:
        raise UsageError(
            f"{', '.join(names)} has no run of {', '.join(chosen.algos or ())}; "
            "leave --algos out, or name methods that it compares"
        )
    return [run for _, run in sorted(found.values(), key=lambda pair: pair[0])]
