"""Runs beside one another: groups of seeds, their statistics, and how to show them."""

from collections.abc import Iterable
from typing import NamedTuple

from capo.comparison.curves import Curve, curve
from capo.comparison.groups import Group, group
from capo.comparison.looks import Look, looks
from capo.comparison.results import Overall, Result, overall, results
from capo.records import Record


class Comparison(NamedTuple):
    """All that there is to show."""

    results: list[Result]
    overall: list[Overall]
    curves: list[tuple[Group, Curve]]
    """Learning curves of the groups that have one."""
    notes: list[str]
    """What a reader must know to trust the rest as far as it goes."""
    looks: dict[str, Look]
    confidence: float

    @property
    def groups(self) -> list[Group]:
        """Those with a result."""
        return [result.group for result in self.results]

    @property
    def envs(self) -> list[str]:
        """The environments, in order."""
        return list(dict.fromkeys(group.env_id for group in self.groups))

    @property
    def labels(self) -> list[str]:
        """The labels, in order."""
        return list(dict.fromkeys(group.label for group in self.groups))


def compare(records: Iterable[Record], confidence: float = 0.95) -> Comparison:
    """Groups the runs and computes everything about the groups."""
    groups, unequal = group(records)
    found, scarce = results(groups, confidence)
    curves = [(r.group, curve(r.group, "return", confidence)) for r in found]
    return Comparison(
        found,
        overall(found, confidence),
        [(each, line) for each, line in curves if line is not None],
        [*unequal, *scarce],
        looks({result.group.label: result.group.algo for result in found}),
        confidence,
    )
