"""Ratios of returns, seed by seed: each variant over the reference, and over its twin."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from capo.paper.design import Contrast, Experiment, Variant
from capo.paper.matching import Results, find_runs
from capo.paper.measures import SECOND_HALF
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.tables import NOT_RUN, Entry, Table
from capo.paper.tasks import CHEETAH
from capo.report.format import typeset

MEAN, ESCAPED = "all tasks", "HalfCheetah above 3000"
BIMODAL, MIDDLE = CHEETAH, 3000.0
"""Task whose runs end either below 2000 or above 4000, and the return that separates them."""
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


def ratio_tables(experiment: Experiment, selection: Selection, results: Results) -> list[Table]:
    """Training return over the second half, divided by the reference's and by the twin's."""
    variants = variants_of(experiment, selection)
    reference = experiment.reference
    assert reference is not None
    pairs = [Contrast(each, reference) for each in variants if each != reference]
    twins = [each for each in experiment.contrasts if {each.after, each.before} <= {*variants}]
    scene = (envs_of(experiment, selection), selection, results)
    made = [
        _table(f"Training return relative to `{reference.algo}` with the same seed", pairs, *scene),
        _table("Training return relative to the twin with one expert", twins, *scene),
    ]
    return [each for each in made if each.rows]


def _table(
    title: str,
    pairs: Sequence[Contrast],
    envs: Sequence[str],
    selection: Selection,
    results: Results,
) -> Table:
    entries: dict[tuple[tuple[str, ...], str], Entry] = {}
    for pair in pairs:
        row = (pair.after.marked,)
        for env_id in envs:
            found = log_ratios(env_id, pair, selection, results)
            entries[row, env_id] = RatioEntry(tuple(found.values()), None, 2)
        entries[row, MEAN] = RatioEntry(mean_log_ratios(envs, pair, selection, results), None, 2)
        if BIMODAL in envs:
            escapes = _escapes(pair.after, selection, results)
            entries[row, ESCAPED] = Entry(escapes, None, 2)
    columns = [*envs, MEAN, *([ESCAPED] if BIMODAL in envs else [])]
    return Table(
        title, ("method",), list(dict.fromkeys(row for row, _ in entries)), columns, entries
    )


def log_ratios(
    env_id: str, pair: Contrast, selection: Selection, results: Results
) -> dict[int, float]:
    """Differences log x_s − log y_s of the training returns over the second half, by seed s."""
    after, before = (
        {
            key.seed: math.log(max(SECOND_HALF.of(run), LEAST))
            for key, run in find_runs(env_id, variant, selection, results).items()
        }
        for variant in (pair.after, pair.before)
    )
    return {seed: after[seed] - before[seed] for seed in sorted({*after} & {*before})}


def mean_log_ratios(
    envs: Sequence[str], pair: Contrast, selection: Selection, results: Results
) -> tuple[float, ...]:
    """The mean log-ratio over all tasks, for each seed that ran on all of them."""
    found = [log_ratios(env_id, pair, selection, results) for env_id in envs]
    seeds = sorted(set.intersection(*map(set, found)))
    return tuple(float(np.mean([each[seed] for each in found])) for seed in seeds)


def _escapes(variant: Variant, selection: Selection, results: Results) -> tuple[float, ...]:
    """For each seed on the bimodal task, 1 if the final return is above the middle, else 0."""
    found = find_runs(BIMODAL, variant, selection, results).values()
    return tuple(float(run.score > MIDDLE) for run in found)
