"""Tables as Markdown, CSV, and text for a terminal."""

import csv
import io
import math

from capo.paper.design import Published
from capo.paper.tables import NOT_RUN, Entry, Table
from capo.report.format import aligned


def to_markdown(found: Table) -> str:
    """A Markdown table; a cell has our number, the paper's in italics, and the difference."""
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


def to_text(found: Table) -> list[str]:
    """Lines for a terminal: one for each cell with runs."""
    rows = [("", "", "ours", "paper", "")]
    for (row, column), entry in found.entries.items():
        if entry.values:
            name = ", ".join(row).replace("`", "")
            rows.append((name, column, entry.ours, entry.theirs, entry.gap))
    left = len(found.entries) - len(rows) + 1
    lines = [found.title, *(aligned(rows, right=(2, 3)) if rows[1:] else ())]
    return [*lines, f"not run: {left} of {len(found.entries)}"] if left else lines


def to_csv(tables: list[Table]) -> bytes:
    """The tables of an experiment as CSV with a line for each cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ours, paper = ("seeds", "ours", "ours_se"), ("paper", "paper_se")
    writer.writerow(["table", "row", "column", *ours, *paper, "difference_se", "verdict"])
    for found in tables:
        for (row, column), entry in found.entries.items():
            paper = entry.published or Published(math.nan)
            numbers = (entry.mean, entry.error, *paper, entry.difference)
            cells = ["" if math.isnan(x) else f"{x:.6g}" for x in numbers]
            verdict = entry.verdict or (NOT_RUN if not entry.values else entry.mismatch)
            names = [found.title, " ".join(row).replace("`", ""), column]
            writer.writerow([*names, len(entry.values), *cells, verdict])
    return out.getvalue().encode()
