"""Tables as Markdown, CSV, and text for a terminal."""

import csv
import io
import math

from capo.report.format import aligned
from capo.sweeps.design import Published
from capo.sweeps.tables import NOT_RUN, Entry, Table


def to_markdown(table: Table) -> str:
    """A Markdown table; a cell has our number, the paper's in italics, and the difference."""
    sides = ["---"] * len(table.corner) + ["---:"] * len(table.columns)
    lines = [_line([*table.corner, *table.columns]), _line(sides)]
    for row in table.rows:
        cells = []
        for column in table.columns:
            entry = table.entries.get((row, column))
            parts = [] if entry is None else [entry.ours, _stated(entry), entry.gap]
            cells.append("<br>".join(filter(None, parts)))
        lines.append(_line([*row, *cells]))
    return "\n".join(lines) + "\n"


def _stated(entry: Entry) -> str:
    return "" if entry.published is None else f"*{entry.theirs}*"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_text(table: Table) -> list[str]:
    """Lines for a terminal: one for each cell with runs."""
    rows = [("", "", "ours", "paper", "")]
    for (row, column), entry in table.entries.items():
        if entry.values:
            name = ", ".join(row).replace("`", "")
            rows.append((name, column, entry.ours, entry.theirs, entry.gap))
    left = len(table.entries) - len(rows) + 1
    lines = [table.title, *(aligned(rows, right=(2, 3)) if rows[1:] else ())]
    return [*lines, f"not run: {left} of {len(table.entries)}"] if left else lines


def to_csv(tables: list[Table]) -> bytes:
    """The tables of an experiment as CSV with a line for each cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ours, paper = ("seeds", "ours", "ours_se"), ("paper", "paper_se")
    writer.writerow(["table", "row", "column", *ours, *paper, "difference_se", "verdict"])
    for table in tables:
        for (row, column), entry in table.entries.items():
            paper = entry.published or Published(math.nan)
            numbers = (entry.mean, entry.error, *paper, entry.difference)
            cells = ["" if math.isnan(x) else f"{x:.6g}" for x in numbers]
            verdict = entry.verdict or (NOT_RUN if not entry.values else entry.mismatch)
            names = [table.title, " ".join(row).replace("`", ""), column]
            writer.writerow([*names, len(entry.values), *cells, verdict])
    return out.getvalue().encode()
