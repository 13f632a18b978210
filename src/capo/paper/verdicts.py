"""Rules that check a claim by means over seeds and their standard errors.

σ is the combined standard error of two means, √(SE² + SE²).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from capo.report.format import typeset
from capo.sweeps.tables import LIMIT, NOT_RUN, Entry

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "not decided"
WORDS = (HOLDS, FAILS, UNDECIDED, NOT_RUN)
MARGIN = 0.25
"""Share of a return below which a difference is small."""
EXTREMES = 3.0
"""Largest difference of the best and the worst of several means that may be chance, in σ.

The extremes of four equal means are more than 2 σ apart in one case of five.
"""

Entries = Mapping[str, Entry]
"""Numbers of a claim by their names."""


class Verdict(NamedTuple):
    """The result of a check, and the numbers behind it."""

    word: str
    numbers: str


def too_few(entries: Sequence[Entry]) -> str:
    """`not run` if an entry has no seed, `not decided` if one has a single seed, else empty."""
    fewest = min(len(entry.values) for entry in entries)
    return NOT_RUN if fewest == 0 else UNDECIDED if fewest == 1 else ""


def direction(gap: float, error: float) -> str:
    """Holds if gap > 2 σ, does not hold if gap < −2 σ, is not decided between."""
    if gap > LIMIT * error:
        return HOLDS
    return FAILS if gap < -LIMIT * error else UNDECIDED


def above(entries: Entries) -> Verdict:
    """The first mean is above the second."""
    high, low = entries.values()
    gap, error = _between(high, low)
    return _verdict(entries, direction(gap, error), _sigmas(gap, error))


def beyond(entries: Entries, bound: float, sign: int) -> Verdict:
    """The first mean is above a bound, or below it if `sign` is −1; others are only shown."""
    first = next(iter(entries.values()))
    word = too_few([first]) or direction(sign * (first.mean - bound), first.error)
    return Verdict(word, _numbers(entries, _one_seed([first])))


def peak(entries: Entries) -> Verdict:
    """The second mean is above the first and above the third."""
    first, middle, last = entries.values()
    return _verdict(entries, _all([direction(*_between(middle, x)) for x in (first, last)]))


def about_equal(entries: Entries) -> Verdict:
    """|x − y| + 2 σ is less than a quarter of |y|; fails if |x − y| > 2 σ."""
    first, second = entries.values()
    gap, error = _between(first, second)
    word = _small(abs(gap), error, abs(second.mean), LIMIT)
    return _verdict(entries, word, _sigmas(gap, error))


def no_worse(entries: Entries) -> Verdict:
    """For each other mean y, y − last + 2 σ is less than a quarter of |y|.

    It does not hold if the last mean is more than 2 σ below another.
    """
    *others, last = entries.values()
    gaps = [(*_between(other, last), abs(other.mean)) for other in others]
    return _verdict(entries, _all([_small(*gap, LIMIT) for gap in gaps]))


def small_spread(entries: Entries) -> Verdict:
    """Best − worst + 2 σ is less than a quarter of the mean; fails if best − worst > 3 σ."""
    size, error, middle = _range(list(entries.values()))
    share = f"best − worst is {size / middle:.0%} of the mean" if middle else ""
    return _verdict(entries, _small(size, error, middle, EXTREMES), share)


def smaller_spread(entries: Entries, names: tuple[str, str]) -> Verdict:
    """(best − worst)/mean is smaller in the first half of the entries than in the second."""
    halves = _halves(entries)
    spreads = []
    for half in halves:
        size, error, middle = _range(half)
        spreads.append((size / middle, error / middle) if middle else (math.nan, math.nan))
    (first, first_error), (second, second_error) = spreads
    word = direction(second - first, math.hypot(first_error, second_error))
    ours = [
        f"{size:.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}") for size, error in spreads
    ]
    theirs = [f"{_spread(half):.2f}" for half in _published(halves)]
    return _of_halves(entries, names, word, ours, theirs)


def grows_faster(entries: Entries, names: tuple[str, str]) -> Verdict:
    """Of (slow before, slow after, fast before, fast after), fast grows by the larger factor."""
    halves = _halves(entries)
    (slow, slow_error), (fast, fast_error) = (_growth(*half) for half in halves)
    word = direction(fast - slow, math.hypot(slow_error, fast_error))
    ours = [f"×{math.exp(x):.2f}" for x in (slow, fast)]
    theirs = [f"×{after / before:.2f}" for before, after in _published(halves)]
    return _of_halves(entries, names, word, ours, theirs)


def _verdict(entries: Entries, word: str, note: str = "") -> Verdict:
    """The word of a rule, unless there are too few seeds."""
    listed = list(entries.values())
    few = too_few(listed)
    return Verdict(few or word, _numbers(entries, _one_seed(listed) if few else note))


def _of_halves(
    entries: Entries, names: tuple[str, str], word: str, ours: list[str], theirs: list[str]
) -> Verdict:
    """The word of a rule about two numbers that are computed from all means."""
    cells = list(entries.values())
    few = too_few(cells)
    listed, published = (
        ", ".join(f"{name} {x}" for name, x in zip(names, row, strict=True)) if row else ""
        for row in (ours, theirs)
    )
    listed = "" if few == NOT_RUN else f"{listed} ({_seeds(cells)})"
    return Verdict(few or word, _joined(listed, _one_seed(cells), published))


def _one_seed(entries: Sequence[Entry]) -> str:
    return "one seed" if too_few(entries) == UNDECIDED else ""


def _all(words: Sequence[str]) -> str:
    """Holds if all hold; does not hold if one does not."""
    return FAILS if FAILS in words else UNDECIDED if UNDECIDED in words else HOLDS


def _small(gap: float, error: float, size: float, most: float) -> str:
    """Holds if gap + 2 σ is less than a quarter of `size`; does not hold if gap > `most` σ."""
    if gap > most * error:
        return FAILS
    return HOLDS if gap + LIMIT * error < MARGIN * size else UNDECIDED


def _between(high: Entry, low: Entry) -> tuple[float, float]:
    """Difference of two means, and σ = √(SE² + SE²)."""
    return high.mean - low.mean, math.hypot(high.error, low.error)


def _growth(before: Entry, after: Entry) -> tuple[float, float]:
    """ln(after/before), and its standard error to first order."""
    if not (before.mean > 0 and after.mean > 0):
        return math.nan, math.nan
    errors = before.error / before.mean, after.error / after.mean
    return math.log(after.mean / before.mean), math.hypot(*errors)


def _range(entries: Sequence[Entry]) -> tuple[float, float, float]:
    """Best − worst, σ of these two, and the absolute value of the mean of all."""
    best, worst = (pick(entries, key=lambda entry: entry.mean) for pick in (max, min))
    return *_between(best, worst), abs(sum(entry.mean for entry in entries)) / len(entries)


def _halves(entries: Entries) -> tuple[list[Entry], list[Entry]]:
    cells = list(entries.values())
    return cells[: len(cells) // 2], cells[len(cells) // 2 :]


def _published(halves: Sequence[Sequence[Entry]]) -> list[list[float]]:
    """The published means; empty if one is missing."""
    means = [[entry.published.mean for entry in half if entry.published] for half in halves]
    whole = all(len(row) == len(half) for row, half in zip(means, halves, strict=True))
    return means if whole else []


def _spread(means: Sequence[float]) -> float:
    return (max(means) - min(means)) * len(means) / sum(means)


def _sigmas(gap: float, error: float) -> str:
    return f"{typeset(f'{gap / error:+.1f}')} σ" if error > 0 else ""


def _seeds(entries: Sequence[Entry]) -> str:
    """Number of seeds of each entry."""
    sizes = sorted({len(entry.values) for entry in entries})
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _numbers(entries: Entries, note: str = "") -> str:
    """Our numbers with the number of seeds in brackets, a note, and the paper's numbers."""
    ours = ", ".join(f"{_named(name)} {each.ours}" for name, each in entries.items() if each.values)
    stated = {name: each for name, each in entries.items() if each.published}
    theirs = ", ".join(f"{_named(name)} {each.theirs}" for name, each in stated.items())
    return _joined(ours, note, theirs)


def _named(name: str) -> str:
    """The name, with a colon after a digit to separate it from the number."""
    return f"{name}:" if name[-1].isdigit() else name


def _joined(ours: str, note: str, theirs: str) -> str:
    return "; ".join(filter(None, [ours, note, theirs and f"paper: {theirs}"]))
