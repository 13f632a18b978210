"""Comparison of runs: groups of seeds, intervals, plots, a page."""

from collections.abc import Iterable
from typing import NamedTuple

from capo.compare.curves import group_curve
from capo.compare.groups import Group, group_runs
from capo.compare.line_styles import LineStyle, line_styles
from capo.compare.results import GroupResult, OverallResult, group_results, overall_results
from capo.runs.reading import SavedRun
from capo.statistics import Curve


class Comparison(NamedTuple):
    """The results of a comparison."""

    results: list[GroupResult]
    overall: list[OverallResult]
    curves: list[tuple[Group, Curve]]
    """Learning curves of the groups whose seeds share steps."""
    notes: list[str]
    """Limitations of the comparison, such as unequal settings or unfinished runs."""
    styles: dict[str, LineStyle]
    confidence: float

    @property
    def groups(self) -> list[Group]:
        """The groups with a result."""
        return [result.group for result in self.results]

    @property
    def envs(self) -> list[str]:
        """The environments, in order."""
        return list(dict.fromkeys(group.env_id for group in self.groups))

    @property
    def labels(self) -> list[str]:
        """The labels, in order."""
        return list(dict.fromkeys(group.label for group in self.groups))


def compare(records: Iterable[SavedRun], confidence: float = 0.95) -> Comparison:
    """Groups the runs and computes the statistics of the groups."""
    groups, group_notes = group_runs(records)
    results, result_notes = group_results(groups, confidence)
    curves = [(r.group, group_curve(r.group, "return", confidence)) for r in results]
    return Comparison(
        results,
        overall_results(results, confidence),
        [(group, curve) for group, curve in curves if curve is not None],
        [*group_notes, *result_notes],
        line_styles({result.group.label: result.group.algo for result in results}),
        confidence,
    )
