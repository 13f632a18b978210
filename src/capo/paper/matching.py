"""The finished runs that an experiment needs, found by their configuration."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from capo.paper.design import Experiment, Measure, Variant
from capo.paper.measures import REFERENCE
from capo.paper.run_keys import RunKey
from capo.paper.selection import Selection, envs_of, planned_run, runs_of, variants_of
from capo.paper.summaries import Summary
from capo.report.format import count

Results = Mapping[RunKey, Summary]
"""The summaries of all finished runs."""


def find_runs(
    env_id: str, variant: Variant, selection: Selection, results: Results
) -> dict[RunKey, Summary]:
    """The seeds of one variant on one task, in order, all with the same number of steps.

    If no run has the number of steps of the paper, and no other number was asked for, these are the
    longest runs.
    """
    wanted = planned_run(env_id, variant, 1, selection).key
    found = {key: run for key, run in results.items() if key.settings == wanted.settings}
    lengths = {key.total_steps for key in found}
    steps = wanted.total_steps
    if steps not in lengths:
        if not lengths or selection.steps:
            return {}
        steps = max(lengths)
    return {key: found[key] for key in sorted(found) if key.total_steps == steps}


def of_own_seeds(experiment: Experiment, results: Results) -> Results:
    """The runs with the experiment's seeds, if it has seeds of its own."""
    own = experiment.seeds
    if not isinstance(own, tuple):
        return results
    return {key: run for key, run in results.items() if key.seed in own}


def find_values(
    env_id: str, variant: Variant, measure: Measure, selection: Selection, results: Results
) -> tuple[float, ...]:
    """The measure of each seed; a relative one is divided by PPO's mean over seeds."""
    found = find_runs(env_id, variant, selection, results)
    scale = 1.0
    if measure.relative:
        plain = find_runs(env_id, Variant(REFERENCE), selection, results)
        lengths = {key.total_steps for key in found}
        same = [measure.of(run) for key, run in plain.items() if key.total_steps in lengths]
        scale = float(np.mean(same)) if same else math.nan
    values = (measure.of(run) / scale for run in found.values())
    return tuple(value for value in values if not math.isnan(value))


class RunCount(NamedTuple):
    """Numbers of runs of an experiment: finished, needed, and finished in addition."""

    done: int
    wanted: int
    others: int
    """Finished runs with further seeds or another number of steps."""

    @staticmethod
    def of(found: set[RunKey], wanted: set[RunKey]) -> "RunCount":
        """Counts the keys of the finished and of the needed runs."""
        return RunCount(len(found & wanted), len(wanted), len(found - wanted))

    def __str__(self) -> str:
        listed = f"{self.done} of {count(self.wanted, 'run')}"
        return f"{listed} and {self.others} more" if self.others else listed

    @property
    def begun(self) -> bool:
        """Whether any run is finished."""
        return self.done + self.others > 0


def count_runs(experiment: Experiment, selection: Selection, results: Results) -> RunCount:
    """Counts the runs of one experiment."""
    results = of_own_seeds(experiment, results)
    found = {
        key
        for env_id in envs_of(experiment, selection)
        for variant in variants_of(experiment, selection)
        for key in find_runs(env_id, variant, selection, results)
    }
    return RunCount.of(found, {run.key for run in runs_of([experiment.name], selection)})
