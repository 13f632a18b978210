"""Numbers and tables as a person reads them."""

import math
from collections.abc import Collection, Sequence

NOTHING = "–"
"""What stands where there is no number."""


def compact(value: float) -> str:
    """1500 as 1.5k, 1_000_000 as 1M; a dash for what is not a number."""
    if math.isnan(value):
        return NOTHING
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if math.fabs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """75 as 1:15; a dash for what is not a number."""
    if math.isnan(seconds):
        return NOTHING
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count(number: int, what: str) -> str:
    """1 run, 2 runs."""
    return f"{number} {what}{'s' * (number != 1)}"


def figure(value: float, like: float | None = None) -> str:
    """1234, 123.4, 1.23, 0.123: as many digits as a return of this size (or of `like`'s) needs."""
    if math.isnan(value):
        return NOTHING
    size = math.fabs(value if like is None or math.isnan(like) else like)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 or size == 0 else 3
    return f"{value:.{digits}f}"


def with_error(value: float, error: float) -> str:
    """500.0 ± 1.2."""
    return f"{figure(value)} ± {figure(error, like=value)}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines with the cells in columns; those numbered in `right` end together."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in clean
    ]


def printable(text: str) -> str:
    """Without what a terminal would obey instead of showing it."""
    return "".join(c if c.isprintable() else "�" for c in text)


def one_line(text: str, most: int = 300) -> str:
    """A message without line breaks or anything that a terminal would obey, cut if it is long."""
    said = printable(" ".join(text[: 10 * most].split()))
    return said if len(said) <= most else said[: most - 1] + "…"


def typeset(number: str) -> str:
    """With a minus sign instead of a hyphen, for a page."""
    return number.replace("-", "−")
