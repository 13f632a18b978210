"""The runs that an experiment needs: their configurations and labels."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from capo.config import Config, parse_steps
from capo.errors import UsageError
from capo.fields import names_where
from capo.methods import Settled, settle
from capo.report.format import compact
from capo.sweeps.design import Experiment, Variant
from capo.sweeps.keys import RunKey, run_key


@functools.cache
def task_space(
    env_id: str,
    backend: Any = Config.backend,
    env_kwargs: str = Config.env_kwargs,
    wrappers: tuple[str, ...] = Config.wrappers,
) -> gym.Space:
    """The observation space of a task, which is made once to ask it."""
    from capo.envs.adapters import config_source

    config = Config(env_id, backend=backend, env_kwargs=env_kwargs, wrappers=wrappers)
    env = config_source(config).make(1, 0)
    env.close()
    return env.observation_space


def settle_for_task(config: Config) -> Settled:
    """Settles a configuration, with the fields of the network by a look at its environment."""
    seen = task_space(config.env_id, config.backend, config.env_kwargs, config.wrappers)
    return settle(config, seen)


class Selection(NamedTuple):
    """The selected part of some experiments; None means all of it."""

    envs: tuple[str, ...] | None = None
    algos: tuple[str, ...] | None = None
    seeds: int | None = None
    steps: int | None = None
    preset: str = Config.preset
    sizes: tuple[tuple[str, Any], ...] = ()
    """Settings that all runs have."""
    only_env: str | None = None
    """One task and the fewest variants: this task where an experiment has it, of its variants those
    without changes, the reference and the last one."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Steps of the runs on tasks with steps of their own."""
    space_of: Callable[[str], gym.Space] = task_space
    """The observation space of a task."""

    def narrowed(self, **given: Any) -> "Selection":
        """A copy with the given choices that are not empty."""
        return self._replace(**{name: value for name, value in given.items() if value})

    def steps_on(self, env_id: str) -> int:
        """Environment steps of a run on a task."""
        return self.steps or dict(self.lengths).get(env_id, Config.total_steps)

    def envs_of(self, experiment: Experiment) -> tuple[str, ...]:
        """The selected tasks, or else all tasks of the experiment."""
        if self.envs is not None:
            return self.envs
        if self.only_env is None:
            return experiment.envs
        return (self.only_env,) if self.only_env in experiment.envs else experiment.envs[:1]

    def variants_of(self, experiment: Experiment) -> tuple[Variant, ...]:
        """The experiment's variants of the selected methods."""
        chosen = [v for v in experiment.variants if self.algos is None or v.algo in self.algos]
        if self.only_env is not None:
            kept = (experiment.reference, chosen[-1]) if chosen else ()
            chosen = [v for v in chosen if self._is_plain(v) or v in kept]
        return tuple(chosen)

    def _is_plain(self, variant: Variant) -> bool:
        """Whether all changes are to default values."""
        assert self.only_env is not None
        return not _configured(self.only_env, variant, self._replace(sizes=(), steps=None))[1]

    def seeds_of(self, experiment: Experiment) -> Sequence[int]:
        """The seeds 1, 2, …, or the first ones of the experiment's own."""
        own = experiment.seeds
        if isinstance(own, tuple):
            return own[: self.seeds]
        return range(1, (self.seeds or own) + 1)


class Run(NamedTuple):
    """A run that is needed."""

    label: str
    """Name of the run without its seed."""
    config: Settled

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
    preset = {} if config.preset == Config.preset else {"preset": config.preset}
    parts = [env_id, variant.algo, _steps(config.total_steps)]
    for name, value in (preset | changed).items():
        values = map(str, value if isinstance(value, tuple) else (value,))
        parts.append(f"{name}={'-'.join(values)}")
    return Run("__".join(parts), config.replace(seed=seed))


@functools.cache
def _configured(
    env_id: str, variant: Variant, selection: Selection
) -> tuple[Settled, dict[str, Any]]:
    """The settled configuration, and its differences from the plain method's."""
    changes = {"preset": selection.preset, **dict(selection.sizes), **dict(variant.changes)}
    space = selection.space_of(env_id)
    config = settle(Config(env_id, variant.algo, selection.steps_on(env_id), **changes), space)
    plain = settle(Config(env_id, variant.algo, preset=changes["preset"]), space)
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


def runs_of(experiments: Sequence[Experiment], selection: Selection) -> list[Run]:
    """The runs of some experiments without duplicates, ordered by seed."""
    runs: dict[RunKey, Run] = {}
    for experiment in experiments:
        for seed in selection.seeds_of(experiment):
            for variant in selection.variants_of(experiment):
                for env_id in selection.envs_of(experiment):
                    run = planned_run(env_id, variant, seed, selection)
                    runs.setdefault(run.key, run)
    if not runs:
        names = ", ".join(experiment.name for experiment in experiments)
        raise UsageError(
            f"{names} has no run of {', '.join(selection.algos or ())}; "
            "leave --algos out, or name methods that it compares"
        )
    return sorted(runs.values(), key=lambda run: run.config.seed)
