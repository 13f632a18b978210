"""The runs that an experiment needs: their configurations, labels and command lines."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from capo.config import Config, parse_steps
from capo.errors import UsageError, flag
from capo.fields import names_where
from capo.paper.design import Experiment, Variant
from capo.paper.experiments import EXPERIMENTS
from capo.paper.run_keys import RunKey, run_key, settled
from capo.paper.tasks import CHEETAH, paper_steps
from capo.report.format import compact

SMOKE_SIZES = {"num_envs": 2, "num_steps": 128, "minibatches": 2, "hidden": (8,)}
"""The smallest sizes with which a run executes everything, and an episode ends."""
SMOKE_STEPS, SHORT_STEPS = 2560, 200_000


class Selection(NamedTuple):
    """The selected part of the experiments; None means the paper's choice."""

    envs: tuple[str, ...] | None = None
    algos: tuple[str, ...] | None = None
    seeds: int | None = None
    steps: int | None = None
    preset: str = "default"
    sizes: tuple[tuple[str, Any], ...] = ()
    """Sizes that differ from the paper's."""
    reduced: bool = False
    """Whether only one task, the variants without changes and the last variant are selected."""

    def narrowed(self, **given: Any) -> "Selection":
        """A copy with the given choices that are not empty."""
        return self._replace(**{name: value for name, value in given.items() if value})

    @staticmethod
    def of_tier(tier: str) -> "Selection":
        """The selection of a tier: `full` is the paper's, `short` and `smoke` are trials."""
        if tier == "smoke":
            sizes = tuple(SMOKE_SIZES.items())
            return Selection(seeds=1, steps=SMOKE_STEPS, sizes=sizes, reduced=True)
        return Selection(seeds=2, steps=SHORT_STEPS) if tier == "short" else Selection()

    def steps_on(self, env_id: str) -> int:
        """Environment steps of a run on a task."""
        return self.steps or paper_steps(env_id)


class Run(NamedTuple):
    """A run that is needed."""

    label: str
    """Name of the run without its seed."""
    config: Config
    words: tuple[str, ...]
    """Arguments of `capo train`."""

    @property
    def name(self) -> str:
        """Name for files and for the screen; nothing is read from it."""
        return f"{self.label}__{self.config.seed}"

    @property
    def key(self) -> RunKey:
        """What the run is found by."""
        return run_key(self.config)


@functools.cache
def planned_run(env_id: str, variant: Variant, seed: int, selection: Selection) -> Run:
    """The run of a variant; changes to the default value are no changes."""
    config, changed = _configured(env_id, variant, selection)
    steps = _steps(config.total_steps)
    preset = {} if selection.preset == Config.preset else {"preset": selection.preset}
    words = [env_id, "--algo", variant.algo, "-n", steps, "--seed", str(seed)]
    parts = [env_id, variant.algo, steps]
    for name, value in (preset | changed).items():
        values = list(map(str, value if isinstance(value, tuple) else (value,)))
        words += [flag(name), *values]
        parts.append(f"{name}={'-'.join(values)}")
    return Run("__".join(parts), config.replace(seed=seed), tuple(words))


@functools.cache
def _configured(
    env_id: str, variant: Variant, selection: Selection
) -> tuple[Config, dict[str, Any]]:
    """The settled configuration, and its differences from the plain method's."""
    plain = Config(env_id, variant.algo).replace(preset=selection.preset)
    changes = {**dict(selection.sizes), **dict(variant.changes)}
    config = settled(plain.replace(total_steps=selection.steps_on(env_id), **changes))
    plain = settled(plain)
    changed = {
        name: getattr(config, name)
        for name in names_where(Config, in_name=True)
        if getattr(config, name) != getattr(plain, name)
    }
    return config, changed


def _steps(count: int) -> str:
    """1M or 200k; all digits if that is not exact."""
    short = compact(count)
    return short if parse_steps(short) == count else str(count)


def envs_of(experiment: Experiment, selection: Selection) -> tuple[str, ...]:
    """The selected tasks, or else all tasks of the experiment."""
    if selection.envs is not None:
        return selection.envs
    if not selection.reduced:
        return experiment.envs
    # The task of most experiments, so that they share runs.
    return (CHEETAH,) if CHEETAH in experiment.envs else experiment.envs[:1]


def variants_of(experiment: Experiment, selection: Selection) -> tuple[Variant, ...]:
    """The experiment's variants of the selected methods."""
    found = [v for v in experiment.variants if selection.algos is None or v.algo in selection.algos]
    if selection.reduced:
        kept = (experiment.reference, found[-1]) if found else ()
        found = [v for v in found if _is_plain(v) or v in kept]
    return tuple(found)


def _is_plain(variant: Variant) -> bool:
    """Whether all changes are to default values."""
    return not _configured(CHEETAH, variant, Selection())[1]


def seeds_of(experiment: Experiment, selection: Selection) -> Sequence[int]:
    """The seeds 1, 2, …, or the first ones of the experiment's own."""
    own = experiment.seeds
    if isinstance(own, tuple):
        return own[: selection.seeds]
    return range(1, (selection.seeds or own) + 1)


def runs_of(names: Sequence[str], selection: Selection) -> list[Run]:
    """The runs of some experiments without duplicates, ordered by seed."""
    found: dict[RunKey, tuple[int, Run]] = {}
    for name in names:
        experiment = EXPERIMENTS[name]
        for seed in seeds_of(experiment, selection):
            for env_id in envs_of(experiment, selection):
                for variant in variants_of(experiment, selection):
                    run = planned_run(env_id, variant, seed, selection)
                    found.setdefault(run.key, (seed, run))
    if not found:
        raise UsageError(
            f"{', '.join(names)} has no run of {', '.join(selection.algos or ())}; "
            "leave --algos out, or name methods that it compares"
        )
    return [run for _, run in sorted(found.values(), key=lambda pair: pair[0])]
