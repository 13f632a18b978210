"""Ours beside the paper's: each cell with both, their difference, and what that says."""

import csv
import io
import math
import re
from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import numpy as np

from capo.config import Config
from capo.format import NOTHING, aligned, compact, count, typeset
from capo.paper.design import Experiment, Layout, Measure, Published, Variant
from capo.paper.experiments import paper_steps
from capo.paper.measures import REFERENCE
from capo.paper.selection import Selection, cell_of, envs_of, runs_of, variants_of
from capo.paper.summaries import Summary
from capo.statistics import standard_error

NOT_RUN = "not run"
SIZES = ("num_envs", "num_steps", "minibatches")
"""Settings in which a trial differs from what the paper did."""
AGREES, HIGHER, LOWER = "agrees", "ours higher", "ours lower"
MARKS = {AGREES: "≈", HIGHER: "▲", LOWER: "▼"}
EXACT = 1e-9
"""Relative errors below this are rounding: what was counted has none."""
LIMIT = 2.0
"""Combined standard errors up to which two numbers agree."""

Results = Mapping[str, Summary]
"""The summaries there are, by the name of their run."""


class Entry(NamedTuple):
    """A cell: one value for each seed, and what the paper states."""

    values: tuple[float, ...]
    published: Published | None
    digits: int
    apart: str = ""
    """In what the runs are not the paper's, so that the two cannot be compared."""

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def error(self) -> float:
        """Its standard error; not a number for one seed."""
        return float(standard_error(np.array(self.values))) if self.values else math.nan

    @property
    def difference(self) -> float:
        """(ours − paper's) / √(SE² + SE²): where the paper states no error, ours alone."""
        if self.published is None or self.apart:
            return math.nan
        theirs = 0.0 if math.isnan(self.published.error) else self.published.error
        combined = math.hypot(self.error, theirs)
        gap = self.mean - self.published.mean
        if abs(gap) < 0.5 * 10**-self.digits:
            return 0.0
        return gap / combined if combined > EXACT * abs(self.mean) else math.nan

    @property
    def verdict(self) -> str:
        """What the difference says; nothing where there is none."""
        if math.isnan(self.difference):
            return ""
        if abs(self.difference) <= LIMIT:
            return AGREES
        return HIGHER if self.difference > 0 else LOWER

    @property
    def ours(self) -> str:
        """2397 ± 286 (3), or that it was not run."""
        if not self.values:
            return NOT_RUN
        error = "" if math.isnan(self.error) else f" ± {self.error:.{self.digits}f}"
        return typeset(f"{self.mean:.{self.digits}f}{error} ({len(self.values)})")

    @property
    def theirs(self) -> str:
        """2711 ± 268, or a dash."""
        if self.published is None:
            return NOTHING
        mean, error = self.published
        said = "" if math.isnan(error) else f" ± {error:.{self.digits}f}"
        return typeset(f"{mean:.{self.digits}f}{said}")

    @property
    def gap(self) -> str:
        """≈ −0.8 σ, or in what these runs are not the paper's."""
        if math.isnan(self.difference):
            return self.apart if self.values else ""
        size = f"{self.difference:+.1f} σ" if abs(self.difference) < 100 else "> 100 σ"
        return typeset(f"{MARKS[self.verdict]} {size}")


class Table(NamedTuple):
    """Rows and columns of entries."""

    title: str
    corner: tuple[str, ...]
    rows: list[tuple[str, ...]]
    columns: list[str]
    entries: dict[tuple[tuple[str, ...], str], Entry]

    @property
    def has_published(self) -> bool:
        """Whether the paper states any of it."""
        return any(entry.published for entry in self.entries.values())


def table(
    experiment: Experiment, layout: Layout, chosen: Selection, results: Results
) -> Table | None:
    """A table from the runs there are; None if nothing was chosen that it is about."""
    entries: dict[tuple[tuple[str, ...], str], Entry] = {}
    for env_id in envs_of(experiment, chosen):
        for variant in variants_of(experiment, chosen):
            if layout.algos is not None and variant.algo not in layout.algos:
                continue
            for measure in layout.measures:
                said = {
                    "env": env_id,
                    "algo": f"`{variant.algo}`",
                    "setting": variant.setting,
                    "label": variant.marked,
                    "measure": measure.name,
                }
                row = tuple(said[name] for name in layout.rows)
                published = layout.published(env_id, variant, measure)
                values = values_of(experiment, env_id, variant, measure, chosen, results)
                found = summaries_of(experiment, env_id, variant, chosen, results)
                why = apart(env_id, found, measure)
                entries[row, said[layout.column]] = Entry(values, published, measure.digits, why)
    if not entries:
        return None
    rows = list(dict.fromkeys(row for row, _ in entries))
    columns = list(dict.fromkeys(column for _, column in entries))
    names = {"env": "task", "algo": "method", "label": "method", "setting": "setting"}
    corner = tuple(names[name] for name in layout.rows)
    return Table(layout.title, corner, rows, columns, entries)


def values_of(
    experiment: Experiment,
    env_id: str,
    variant: Variant,
    measure: Measure,
    chosen: Selection,
    results: Results,
) -> tuple[float, ...]:
    """One number for each seed that was run."""
    found = summaries_of(experiment, env_id, variant, chosen, results)
    scale = 1.0
    if measure.relative:
        plain = summaries_of(experiment, env_id, Variant(REFERENCE), chosen, results)
        lengths = {run.config["total_steps"] for run in found}
        plain = [run for run in plain if run.config["total_steps"] in lengths]
        scale = float(np.mean([measure.of(run) for run in plain])) if plain else math.nan
    values = (measure.of(run) / scale for run in found)
    return tuple(value for value in values if not math.isnan(value))


def summaries_of(
    experiment: Experiment, env_id: str, variant: Variant, chosen: Selection, results: Results
) -> list[Summary]:
    """Of the seeds of one variant on one task that were run, in order, all equally long.

    If none was run for as long as was chosen, or as the paper's runs are, the longest there are.
    """
    cell = cell_of(env_id, variant, chosen)
    begin = f"{cell.begin}__"
    found = [run for name, run in results.items() if name.startswith(begin) and cell.holds(name)]
    lengths = {run.config["total_steps"] for run in found}
    wanted = chosen.steps_on(env_id)
    if wanted not in lengths:
        if not lengths or chosen.steps:
            return []
        wanted = max(lengths)
    same = [run for run in found if run.config["total_steps"] == wanted]
    return sorted(same, key=lambda run: run.seed)


class Progress(NamedTuple):
    """How many of an experiment's runs there are, how many it has, and how many others it shows."""

    done: int
    wanted: int
    others: int
    """With more seeds, or of another length."""

    @staticmethod
    def of(found: set[str], wanted: set[str]) -> "Progress":
        """From the names of the runs there are, and of those it has."""
        return Progress(len(found & wanted), len(wanted), len(found - wanted))

    def __str__(self) -> str:
        said = f"{self.done} of {count(self.wanted, 'run')}"
        return f"{said} and {self.others} more" if self.others else said

    @property
    def begun(self) -> bool:
        """Whether there is anything to show."""
        return self.done + self.others > 0


def progress(experiment: Experiment, chosen: Selection, results: Results) -> Progress:
    """Of the runs that its tables are made from."""
    cells = [(e, v) for e in envs_of(experiment, chosen) for v in variants_of(experiment, chosen)]
    found = {run.name for cell in cells for run in summaries_of(experiment, *cell, chosen, results)}
    return Progress.of(found, {run.name for run in runs_of([experiment.name], chosen)})


def apart(env_id: str, found: list[Summary], measure: Measure) -> str:
    """Why the paper's number is of something else, if it is."""
    if not found:
        return ""
    config = found[0].config
    if any(config[name] != getattr(Config, name) for name in SIZES):
        return "other sizes"
    ours, theirs = config["total_steps"], paper_steps(env_id)
    if ours == theirs or measure.relative:
        return ""
    return f"{compact(ours)} steps, paper {compact(theirs)}"


def to_markdown(found: Table) -> str:
    """A table whose cells have ours, the paper's in italics, and the difference."""
    sides = ["---"] * len(found.corner) + ["---:"] * len(found.columns)
    lines = [_line([*found.corner, *found.columns]), _line(sides)]
    for row in found.rows:
        cells = []
        for column in found.columns:
            entry = found.entries.get((row, column))
            parts = [] if entry is None else [entry.ours, _stated(entry), entry.gap]
            cells.append("<br>".join(filter(None, parts)))
        lines.append(_line([*row, *cells]))
    return "\n".join(lines) + "\n"


def _stated(entry: Entry) -> str:
    return "" if entry.published is None else f"*{entry.theirs}*"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_html(found: Table) -> str:
    """The same for a page."""
    head = "".join(f"<th>{escape(name)}</th>" for name in found.corner)
    head += "".join(f'<th class="number">{escape(name)}</th>' for name in found.columns)
    body = []
    for row in found.rows:
        cells = "".join(f'<td class="name">{coded(name)}</td>' for name in row)
        cells += "".join(_cell(found.entries.get((row, column))) for column in found.columns)
        body.append(f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def coded(text: str) -> str:
    """For a page, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "<td></td>"
    kind = "none" if not entry.values else entry.verdict.replace(" ", "-")
    parts = [f'<span class="ours">{escape(entry.ours)}</span>']
    if entry.published is not None:
        parts.append(f'<span class="theirs">{escape(entry.theirs)}</span>')
    if entry.gap:
        parts.append(f'<span class="gap">{escape(entry.gap)}</span>')
    return f'<td class="number {kind}">{"".join(parts)}</td>'


def to_text(found: Table) -> list[str]:
    """A line for each cell that was run, for a terminal."""
    rows = [("", "", "ours", "paper", "")]
    for (row, column), entry in found.entries.items():
        if entry.values:
            name = ", ".join(row).replace("`", "")
            rows.append((name, column, entry.ours, entry.theirs, entry.gap))
    left = len(found.entries) - len(rows) + 1
    lines = [found.title, *(aligned(rows, right=(2, 3)) if rows[1:] else ())]
    return [*lines, f"not run: {left} of {len(found.entries)}"] if left else lines


def to_csv(tables: list[Table]) -> bytes:
    """All tables of an experiment in long form: a line for each cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ours, paper = ("seeds", "ours", "ours_se"), ("paper", "paper_se")
    writer.writerow(["table", "row", "column", *ours, *paper, "difference_se", "verdict"])
    for found in tables:
        for (row, column), entry in found.entries.items():
            paper = entry.published or Published(math.nan)
            numbers = (entry.mean, entry.error, *paper, entry.difference)
            cells = ["" if math.isnan(x) else f"{x:.6g}" for x in numbers]
            said = entry.verdict or (NOT_RUN if not entry.values else entry.apart)
            names = [found.title, " ".join(row).replace("`", ""), column]
            writer.writerow([*names, len(entry.values), *cells, said])
    return out.getvalue().encode()
