"""Ratios of returns, seed by seed: each variant over the reference, and over its twin."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import stdtrit

from capo.report.format import typeset
from capo.sweeps.design import Contrast, Experiment, Threshold, Variant
from capo.sweeps.measures import RETURN, SECOND_HALF
from capo.sweeps.results import Results
from capo.sweeps.tables import NOT_RUN, Entry, Table

MEAN = "all tasks"
LEAST = 1.0
"""Returns below this count as this: a logarithm needs a positive number."""


class RatioEntry(Entry):
    """A cell with log-ratios, shown as percentages with a 95% interval."""

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95% interval of the mean log-ratio; infinite for one seed."""
        seeds = len(self.values)
        if seeds < 2:
            return -math.inf, math.inf
        width = float(stdtrit(seeds - 1, 0.975)) * self.error
        return self.mean - width, self.mean + width

    @property
    def ours(self) -> str:
        """exp(mean) − 1 and, from three seeds on, its interval: +18% [−5, +46] (7)."""
        if not self.values:
            return NOT_RUN
        ends = ""
        if len(self.values) > 2:
            low, high = map(_percent, self.interval)
            ends = f" [{low}, {high}]"
        return typeset(f"{_percent(self.mean)}%{ends} ({len(self.values)})")


def _percent(log_ratio: float) -> str:
    return f"{100 * math.expm1(min(log_ratio, 10)):+.0f}"


def ratio_tables(experiment: Experiment, results: Results) -> list[Table]:
    """Training return over the second half, divided by the reference's and by the twin's."""
    variants, reference = results.variants(experiment), experiment.reference
    assert reference is not None
    pairs = [Contrast(each, reference) for each in variants if each != reference]
    twins = [each for each in experiment.contrasts if {each.after, each.before} <= {*variants}]
    over_twins = _table(
        "Training return relative to a twin or a rival with one expert",
        ("method", "relative to"),
        {(each.after.marked, each.before.marked): each for each in twins},
        experiment,
        results,
    )
    if pairs == twins:
        return [over_twins]
    over_reference = _table(
        f"Training return relative to {reference.marked} with the same seed",
        ("method",),
        {(each.after.marked,): each for each in pairs},
        experiment,
        results,
    )
    return [each for each in (over_reference, over_twins) if each.rows]


def _table(
    title: str,
    corner: tuple[str, ...],
    pairs: Mapping[tuple[str, ...], Contrast],
    experiment: Experiment,
    results: Results,
) -> Table:
    envs, threshold = results.envs(experiment), experiment.threshold
    separated = [threshold] if threshold is not None and threshold.env_id in envs else []
    entries: dict[tuple[tuple[str, ...], str], Entry] = {}
    for row, pair in pairs.items():
        for env_id in envs:
            ratios = tuple(log_ratios(env_id, pair, results).values())
            entries[row, env_id] = RatioEntry(ratios, None, 2)
        entries[row, MEAN] = RatioEntry(mean_log_ratios(envs, pair, results), None, 2)
        for each in separated:
            entries[row, each.title] = Entry(_share_above(each, pair.after, results), None, 2)
    return Table(
        title=title,
        corner=corner,
        rows=list(pairs),
        columns=[*envs, MEAN, *(each.title for each in separated)],
        entries=entries,
    )


def log_ratios(env_id: str, pair: Contrast, results: Results) -> dict[int, float]:
    """Differences log x_s − log y_s of the training returns over the second half, by seed s."""
    after, before = (
        {
            seed: math.log(max(value, LEAST))
            for seed, value in results.by_seed(env_id, variant, SECOND_HALF).items()
        }
        for variant in (pair.after, pair.before)
    )
    return {seed: after[seed] - before[seed] for seed in sorted({*after} & {*before})}


def mean_log_ratios(envs: Sequence[str], pair: Contrast, results: Results) -> tuple[float, ...]:
    """The mean log-ratio over all tasks, for each seed that ran on all of them."""
    by_env = [log_ratios(env_id, pair, results) for env_id in envs]
    seeds = sorted(set.intersection(*map(set, by_env)))
    return tuple(float(np.mean([each[seed] for each in by_env])) for seed in seeds)


def _share_above(threshold: Threshold, variant: Variant, results: Results) -> tuple[float, ...]:
    """For each seed, 1 if the final return is above the threshold, else 0."""
    scores = results.by_seed(threshold.env_id, variant, RETURN).values()
    return tuple(float(score > threshold.value) for score in scores)
