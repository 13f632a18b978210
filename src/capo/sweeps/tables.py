"""Tables of our numbers beside the paper's, with their differences."""

import math
from typing import NamedTuple

import numpy as np

from capo.report.format import NOTHING, typeset
from capo.statistics import standard_error
from capo.sweeps.design import Experiment, Layout, Published
from capo.sweeps.results import Results

NOT_RUN = "not run"
AGREES, HIGHER, LOWER = "agrees", "ours higher", "ours lower"
MARKS = {AGREES: "≈", HIGHER: "▲", LOWER: "▼"}
EXACT = 1e-9
"""Relative errors below this are rounding errors of exact counts."""
LIMIT = 2.0
"""Combined standard errors up to which two numbers agree."""


class Entry(NamedTuple):
    """A cell: the values of the seeds, and the published number."""

    values: tuple[float, ...]
    published: Published | None
    digits: int
    mismatch: str = ""
    """Why the runs cannot be compared with the paper's; empty if they can."""

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for one seed."""
        return float(standard_error(np.array(self.values))) if self.values else math.nan

    @property
    def difference(self) -> float:
        """(ours − paper's) / √(SE² + SE²); the paper's SE counts as 0 if it states none."""
        if self.published is None or self.mismatch:
            return math.nan
        theirs = 0.0 if math.isnan(self.published.error) else self.published.error
        combined = math.hypot(self.error, theirs)
        gap = self.mean - self.published.mean
        if abs(gap) < 0.5 * 10**-self.digits:
            return 0.0
        return gap / combined if combined > EXACT * abs(self.mean) else math.nan

    @property
    def verdict(self) -> str:
        """Whether the numbers agree; empty if they cannot be compared."""
        if math.isnan(self.difference):
            return ""
        if abs(self.difference) <= LIMIT:
            return AGREES
        return HIGHER if self.difference > 0 else LOWER

    @property
    def ours(self) -> str:
        """Our number: 2397 ± 286 (3), or that it was not run."""
        if not self.values:
            return NOT_RUN
        error = "" if math.isnan(self.error) else f" ± {self.error:.{self.digits}f}"
        return typeset(f"{self.mean:.{self.digits}f}{error} ({len(self.values)})")

    @property
    def theirs(self) -> str:
        """The paper's number: 2711 ± 268, or a dash."""
        if self.published is None:
            return NOTHING
        mean, error = self.published
        suffix = "" if math.isnan(error) else f" ± {error:.{self.digits}f}"
        return typeset(f"{mean:.{self.digits}f}{suffix}")

    @property
    def gap(self) -> str:
        """The difference: ≈ −0.8 σ, or the reason why there is none."""
        if math.isnan(self.difference):
            return self.mismatch if self.values else ""
        size = f"{self.difference:+.1f} σ" if abs(self.difference) < 100 else "> 100 σ"
        return typeset(f"{MARKS[self.verdict]} {size}")


class Table(NamedTuple):
    """Rows and columns of entries."""

    title: str
    corner: tuple[str, ...]
    rows: list[tuple[str, ...]]
    columns: list[str]
    entries: dict[tuple[tuple[str, ...], str], Entry]


def build_table(experiment: Experiment, layout: Layout, results: Results) -> Table | None:
    """A table of an experiment; None if nothing of it was selected."""
    entries: dict[tuple[tuple[str, ...], str], Entry] = {}
    for env_id, variant in results.cells(experiment):
        if layout.algos is not None and variant.algo not in layout.algos:
            continue
        for measure in layout.measures:
            parts = {
                "env": env_id,
                "algo": f"`{variant.algo}`",
                "setting": variant.setting,
                "label": variant.marked,
                "measure": measure.name,
            }
            row = tuple(parts[name] for name in layout.rows)
            entries[row, parts[layout.column]] = Entry(
                values=results.values(env_id, variant, measure),
                published=layout.published(env_id, variant, measure),
                digits=measure.digits,
                mismatch=results.mismatch(experiment, env_id, [variant], measure),
            )
    if not entries:
        return None
    names = {"env": "task", "algo": "method", "label": "method", "setting": "setting"}
    return Table(
        title=layout.title,
        corner=tuple(names[name] for name in layout.rows),
        rows=list(dict.fromkeys(row for row, _ in entries)),
        columns=list(dict.fromkeys(column for _, column in entries)),
        entries=entries,
    )
