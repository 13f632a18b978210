"""The tables of the page: every cell with the number that it is sorted by."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from capo.comparison import Comparison, svg
from capo.comparison.looks import Look
from capo.comparison.results import Estimate, Result
from capo.comparison.text import interval
from capo.format import NOTHING, clock, compact, figure, typeset, with_error
from capo.records import Record, number


class Cell(NamedTuple):
    """What a cell shows, and what it is sorted by in a column of numbers."""

    html: str
    value: float = math.nan


class Head(NamedTuple):
    """A column: its name, and the class of its cells, `number` if it is sorted as numbers."""

    name: str
    kind: str = ""


REFERENCE = '<span class="interval">the reference</span>'
NAMES = (Head("Environment", "name"), Head("Algorithm", "name"))


def results_table(found: Comparison) -> str:
    """A row for each group, and one for each mean over environments."""
    heads = [
        *NAMES,
        Head("Seeds", "number"),
        Head("Final return", "number"),
        Head("IQM", "number"),
        Head("P(better)", "number"),
    ]
    rows = [_result_row(found, result) for result in found.results]
    several = len({each.reference for each in found.overall}) > 1
    for each in found.overall:
        against = f", against {each.reference}" * several
        where = Cell(escape(f"mean over {each.environments} envs{against}"))
        better = _better(each.better, found.looks[each.label])
        rows.append([where, Cell(escape(each.label)), *[Cell(NOTHING)] * 3, better])
    return _table("results", heads, rows)


def _result_row(found: Comparison, result: Result) -> list[Cell]:
    group, look = result.group, found.looks[result.group.label]
    here = [r for r in found.results if r.group.env_id == group.env_id]
    refers = any(r.reference == group.label for r in here)
    ends = [x for r in here for x in (r.iqm.low, r.iqm.high) if not math.isnan(x)]
    mark = "*" if result.trained else ""
    better = _better(result.better, look)
    middle = Cell(NOTHING)
    if not math.isnan(result.iqm.value):
        drawn = svg.whisker(result.iqm, min(ends), max(ends), look)
        middle = Cell(_bracketed(interval(result.iqm)) + drawn, result.iqm.value)
    return [
        Cell(escape(group.env_id)),
        Cell(escape(group.label)),
        Cell(str(len(result.scores)), len(result.scores)),
        Cell(typeset(with_error(result.mean, result.error)) + mark, result.mean),
        middle,
        Cell(REFERENCE) if refers else better,
    ]


def _better(found: Estimate, look: Look) -> Cell:
    if math.isnan(found.value):
        return Cell(NOTHING)
    drawn = svg.whisker(found, 0.0, 1.0, look, half=True)
    return Cell(_bracketed(interval(found, digits=2)) + drawn, found.value)


def _bracketed(said: str) -> str:
    value, rest = typeset(said).split(" ", 1)
    return f'{value} <span class="interval">{rest}</span>'


def runs_table(found: Comparison) -> str:
    """A row for each run."""
    heads = [
        *NAMES,
        Head("Seed", "number"),
        Head("Final return", "number"),
        Head("Steps", "number"),
        Head("Status"),
        Head("Wall time", "number"),
        Head("Folder", "folder"),
    ]
    rows = [_run_row(group.label, record) for group in found.groups for record in group.records]
    return _table("runs", heads, rows)


def _run_row(label: str, record: Record) -> list[Cell]:
    score = record.score
    return [
        Cell(escape(record.env_id)),
        Cell(escape(label)),
        Cell(str(record.seed), number(record.seed)),
        Cell(typeset(figure(score.value)) + score.mark, score.value),
        Cell(f"{compact(record.steps)} of {compact(record.asked)}", record.steps),
        Cell(escape(record.status)),
        Cell(clock(record.seconds), record.seconds),
        Cell(escape(str(record.path))),
    ]


def _table(name: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]]) -> str:
    top = "".join(
        f'<th scope="col" class="{head.kind}" aria-sort="none">'
        f'<button type="button">{escape(head.name)}</button></th>'
        for head in heads
    )
    body = "".join("<tr>" + "".join(map(_cell, heads, row)) + "</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table id="{name}" '
        f'class="sortable"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(head: Head, cell: Cell) -> str:
    value = f' data-value="{float(cell.value)!r}"' if math.isfinite(cell.value) else ""
    return f'<td class="{head.kind}"{value}>{cell.html}</td>'
