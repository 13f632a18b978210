"""Reports of experiments: tables, figure and verdicts, for the page and for files."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from capo.paper.checks import Claim
from capo.paper.claims import claims_of
from capo.paper.depth_figures import depth_figure, fisher_epochs_figure
from capo.paper.experiments import EXPERIMENTS
from capo.paper.verdicts import FAILS, HOLDS, WORDS, Verdict
from capo.sweeps.design import Experiment
from capo.sweeps.differences import paired_differences
from capo.sweeps.figures import curves_figure, ratio_figure, returns_figure
from capo.sweeps.keys import RunKey
from capo.sweeps.ratios import ratio_tables
from capo.sweeps.results import Results, RunCount
from capo.sweeps.summaries import Summary
from capo.sweeps.tables import NOT_RUN, Table, build_table

DPI = 110
FIGURES: dict[str, Callable[[Experiment, Results], Figure | None]] = {
    "curves": curves_figure,
    "depth": depth_figure,
    "fisher-epochs": fisher_epochs_figure,
    "attribution": returns_figure,
    "ratios": ratio_figure,
}
"""Functions that draw a figure, by the name in `Experiment.figure`; None without runs."""


class ExperimentReport(NamedTuple):
    """An experiment with its results."""

    experiment: Experiment
    runs: RunCount
    tables: list[Table]
    figure: bytes | None
    """A PNG."""
    verdicts: list[tuple[Claim, Verdict]]

    @property
    def checked_claims(self) -> dict[tuple[str, str], list[tuple[Claim, Verdict]]]:
        """Claims with runs and their verdicts, by statement and place in the paper."""
        groups: dict[tuple[str, str], list[tuple[Claim, Verdict]]] = {}
        for claim, verdict in self.verdicts:
            if verdict.word != NOT_RUN:
                groups.setdefault((claim.statement, claim.where), []).append((claim, verdict))
        return groups

    @property
    def unchecked_claims(self) -> list[str]:
        """Names of the claims without enough runs."""
        return [claim.name for claim, verdict in self.verdicts if verdict.word == NOT_RUN]

    @property
    def verdict_counts(self) -> dict[str, str]:
        """How often each word is the verdict: 1 holds, 2 hold."""
        counts = Counter(verdict.word for _, verdict in self.verdicts)
        plural = {HOLDS: "hold", FAILS: "do not hold"}
        return {
            word: f"{counts[word]} {word if counts[word] == 1 else plural.get(word, word)}"
            for word in WORDS
            if counts[word]
        }


def build_reports(names: Sequence[str], results: Results) -> list[ExperimentReport]:
    """The report of each experiment."""
    claims = claims_of(names)
    return [
        ExperimentReport(
            experiment=experiment,
            runs=results.count(experiment),
            tables=build_tables(experiment, results),
            figure=_figure(experiment, results.within(experiment)),
            verdicts=[(claim, claim.check(results)) for claim in claims[experiment.name]],
        )
        for experiment in (EXPERIMENTS[name] for name in names)
    ]


def build_tables(experiment: Experiment, results: Results) -> list[Table]:
    """The tables of an experiment for the selected tasks and methods."""
    own = results.within(experiment)
    made = [build_table(experiment, layout, own) for layout in experiment.layouts]
    if experiment.reference is not None:
        return [*ratio_tables(experiment, own), *filter(None, made)]
    return list(filter(None, [*made, paired_differences(experiment, own)]))


def runs_used(names: Sequence[str], results: Results) -> dict[RunKey, Summary]:
    """The runs behind the tables and figures of some experiments."""
    used: dict[RunKey, Summary] = {}
    for experiment in (EXPERIMENTS[name] for name in names):
        own = results.within(experiment)
        for cell in own.cells(experiment):
            used |= own.of(*cell)
    return used


def _figure(experiment: Experiment, results: Results) -> bytes | None:
    if not experiment.figure:
        return None
    drawn = FIGURES[experiment.figure](experiment, results)
    if drawn is None:
        return None
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
