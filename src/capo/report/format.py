"""Text formats of numbers, durations and tables."""

import math
from collections.abc import Collection, Sequence

from capo.storage.text import printable

NOTHING = "–"
"""Placeholder for a missing number."""


def compact(value: float) -> str:
    """1500 as 1.5k, 1_000_000 as 1M, NaN as a dash."""
    if math.isnan(value):
        return NOTHING
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if math.fabs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """75 seconds as 1:15, NaN as a dash."""
    if math.isnan(seconds):
        return NOTHING
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count(number: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{number} {noun}{'s' * (number != 1)}"


def rounded(value: float, like: float | None = None) -> str:
    """1234, 123.4, 1.23, 0.123: decimals by the size of the value, or of `like` if given."""
    if math.isnan(value):
        return NOTHING
    size = math.fabs(value if like is None or math.isnan(like) else like)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 or size == 0 else 3
    return f"{value:.{digits}f}"


def with_error(value: float, error: float) -> str:
    """500.0 ± 1.2."""
    return f"{rounded(value)} ± {rounded(error, like=value)}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of a table; the columns numbered in `right` are aligned to the right."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in clean
    ]


def typeset(number: str) -> str:
    """The number with a minus sign in place of a hyphen, for HTML and Markdown."""
    return number.replace("-", "−")
