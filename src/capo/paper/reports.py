"""Reports of experiments: tables, figure and verdicts, for the page and for files."""

import io
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from capo.paper.checks import Claim
from capo.paper.claims import claims_of
from capo.paper.design import Experiment
from capo.paper.differences import paired_differences
from capo.paper.experiments import EXPERIMENTS
from capo.paper.figures import FIGURES
from capo.paper.matching import Results, RunCount, count_runs, find_runs, of_own_seeds
from capo.paper.ratios import ratio_tables
from capo.paper.run_keys import RunKey
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.summaries import Summary
from capo.paper.tables import NOT_RUN, Table, build_table
from capo.paper.verdicts import FAILS, HOLDS, WORDS, Verdict

DPI = 110


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
        found: dict[tuple[str, str], list[tuple[Claim, Verdict]]] = {}
        for claim, verdict in self.verdicts:
            if verdict.word != NOT_RUN:
                found.setdefault((claim.statement, claim.where), []).append((claim, verdict))
        return found

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


def build_reports(
    names: Sequence[str], selection: Selection, results: Results
) -> list[ExperimentReport]:
    """The report of each experiment."""
    claims = claims_of(names)
    reports = []
    for name in names:
        experiment = EXPERIMENTS[name]
        verdicts = [(claim, claim.check(selection, results)) for claim in claims[name]]
        runs = count_runs(experiment, selection, results)
        tables = build_tables(experiment, selection, results)
        figure = _figure(experiment, selection, results)
        reports.append(ExperimentReport(experiment, runs, tables, figure, verdicts))
    return reports


def build_tables(experiment: Experiment, selection: Selection, results: Results) -> list[Table]:
    """The tables of an experiment for the selected tasks and methods."""
    results = of_own_seeds(experiment, results)
    made = [build_table(experiment, layout, selection, results) for layout in experiment.layouts]
    if experiment.reference is not None:
        return [*ratio_tables(experiment, selection, results), *filter(None, made)]
    return list(filter(None, [*made, paired_differences(experiment, selection, results)]))


def runs_used(
    names: Sequence[str], selection: Selection, results: Results
) -> dict[RunKey, Summary]:
    """The runs behind the tables and figures of some experiments."""
    return {
        key: run
        for experiment in (EXPERIMENTS[name] for name in names)
        for env_id in envs_of(experiment, selection)
        for variant in variants_of(experiment, selection)
        for key, run in find_runs(
            env_id, variant, selection, of_own_seeds(experiment, results)
        ).items()
    }


def _figure(experiment: Experiment, selection: Selection, results: Results) -> bytes | None:
    if not experiment.figure:
        return None
    results = of_own_seeds(experiment, results)
    drawn = FIGURES[experiment.figure](experiment, selection, results)
    if drawn is None:
        return None
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
