"""The finished runs: which of them an experiment needs, and what they say."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from capo.report.format import count
from capo.statistics import Curve, mean_curve
from capo.sweeps.design import Experiment, Measure, Variant
from capo.sweeps.keys import RunKey
from capo.sweeps.selection import Selection, planned_run, runs_of
from capo.sweeps.summaries import Summary

REFERENCE = "ppo"
"""Method that relative measures are relative to."""
POINTS = 100
"""Most points of a mean learning curve."""


class Results:
    """The summaries of all finished runs, and the part of the experiments that is looked at."""

    def __init__(self, runs: Mapping[RunKey, Summary], selection: Selection):
        self.runs, self.selection = runs, selection

    def within(self, experiment: Experiment) -> "Results":
        """Only the runs with the experiment's seeds, if it has seeds of its own."""
        own = experiment.seeds
        if not isinstance(own, tuple):
            return self
        return Results({key: x for key, x in self.runs.items() if key.seed in own}, self.selection)

    def envs(self, experiment: Experiment) -> tuple[str, ...]:
        """The selected tasks of an experiment."""
        return self.selection.envs_of(experiment)

    def variants(self, experiment: Experiment) -> tuple[Variant, ...]:
        """The selected variants of an experiment."""
        return self.selection.variants_of(experiment)

    def cells(self, experiment: Experiment) -> Iterable[tuple[str, Variant]]:
        """Each selected task with each selected variant."""
        return ((e, v) for e in self.envs(experiment) for v in self.variants(experiment))

    def of(self, env_id: str, variant: Variant) -> dict[RunKey, Summary]:
        """The seeds of one variant on one task, in order, all with the same number of steps.

        If no run has the number of steps of the selection, and none was asked for, these are the
        longest runs.
        """
        wanted = planned_run(env_id, variant, 1, self.selection).key
        alike = {key: run for key, run in self.runs.items() if key.settings == wanted.settings}
        lengths = {key.total_steps for key in alike}
        steps = wanted.total_steps
        if steps not in lengths:
            if not lengths or self.selection.steps:
                return {}
            steps = max(lengths)
        return {key: alike[key] for key in sorted(alike) if key.total_steps == steps}

    def values(self, env_id: str, variant: Variant, measure: Measure) -> tuple[float, ...]:
        """The measure of each seed; a relative one is divided by PPO's mean over seeds."""
        runs, scale = self.of(env_id, variant), 1.0
        if measure.relative:
            lengths = {key.total_steps for key in runs}
            plain = self.of(env_id, Variant(REFERENCE)).items()
            same = [measure.of(run) for key, run in plain if key.total_steps in lengths]
            scale = float(np.mean(same)) if same else math.nan
        values = (measure.of(run) / scale for run in runs.values())
        return tuple(value for value in values if not math.isnan(value))

    def by_seed(self, env_id: str, variant: Variant, measure: Measure) -> dict[int, float]:
        """The measure of each seed, by its number."""
        return {key.seed: measure.of(run) for key, run in self.of(env_id, variant).items()}

    def curve(self, env_id: str, variant: Variant) -> Curve | None:
        """The mean training return over the steps; None if the seeds share no steps."""
        return mean_curve([run.learning for run in self.of(env_id, variant).values()], POINTS)

    def mismatch(
        self, experiment: Experiment, env_id: str, variants: Iterable[Variant], measure: Measure
    ) -> str:
        """Why the runs cannot be compared with the published numbers; empty if they can."""
        runs = (run for variant in variants for run in self.of(env_id, variant).values())
        first = next(iter(runs), None)
        return "" if first is None else experiment.mismatch(env_id, first, measure)

    def count(self, experiment: Experiment) -> "RunCount":
        """Counts the runs of one experiment."""
        own = self.within(experiment)
        done = {key for cell in own.cells(experiment) for key in own.of(*cell)}
        wanted = {run.key for run in runs_of([experiment], self.selection)}
        return RunCount.of(done, wanted)


class RunCount(NamedTuple):
    """Numbers of runs of an experiment: finished, needed, and finished in addition."""

    done: int
    wanted: int
    others: int
    """Finished runs with further seeds or another number of steps."""

    @staticmethod
    def of(done: set[RunKey], wanted: set[RunKey]) -> "RunCount":
        """Counts the keys of the finished and of the needed runs."""
        return RunCount(done=len(done & wanted), wanted=len(wanted), others=len(done - wanted))

    def __str__(self) -> str:
        listed = f"{self.done} of {count(self.wanted, 'run')}"
        return f"{listed} and {self.others} more" if self.others else listed

    @property
    def begun(self) -> bool:
        """Whether any run is finished."""
        return self.done + self.others > 0
