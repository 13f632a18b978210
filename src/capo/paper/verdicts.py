"""The rules by which a claim is judged: means over seeds, their errors, how far they are apart."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from capo.format import typeset
from capo.paper.tables import LIMIT, NOT_RUN, Entry

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
WORDS = (HOLDS, FAILS, OPEN, NOT_RUN)
MARGIN = 0.25
"""The share of a return that counts as little, where a claim says that something matters little."""
EXTREMES = 3.0
"""Combined errors up to which the best and the worst of several may be apart by luck alone.

Of four equal means the extreme two are more than 2 apart one time in five.
"""

Entries = Mapping[str, Entry]
"""What a verdict rests on, by the names it is shown under."""


class Verdict(NamedTuple):
    """What our runs say about a claim, and the numbers that this rests on."""

    word: str
    numbers: str


def too_few(entries: Sequence[Entry]) -> str:
    """Not run if one has no seed, not decided if one has a single one; nothing if all have more."""
    fewest = min(len(entry.values) for entry in entries)
    return NOT_RUN if fewest == 0 else OPEN if fewest == 1 else ""


def direction(gap: float, error: float) -> str:
    """Holds beyond 2 errors above zero, does not hold beyond 2 below, is not decided between."""
    if gap > LIMIT * error:
        return HOLDS
    return FAILS if gap < -LIMIT * error else OPEN


def above(entries: Entries) -> Verdict:
    """The first mean is above the second."""
    high, low = entries.values()
    gap, error = _between(high, low)
    return _verdict(entries, direction(gap, error), _sigmas(gap, error))


def past(entries: Entries, bound: float, sign: int) -> Verdict:
    """The first mean is above a bound, or below it if `sign` is −1; the others are told only."""
    first = next(iter(entries.values()))
    word = too_few([first]) or direction(sign * (first.mean - bound), first.error)
    return Verdict(word, _numbers(entries, _one_seed([first])))


def peak(entries: Entries) -> Verdict:
    """The second mean is above the first and above the third."""
    first, middle, last = entries.values()
    return _verdict(entries, _all([direction(*_between(middle, x)) for x in (first, last)]))


def alike(entries: Entries) -> Verdict:
    """Two means differ by less than a quarter of the second, beyond 2 errors.

    It does not hold if they are more than 2 errors apart.
    """
    first, second = entries.values()
    gap, error = _between(first, second)
    word = _small(abs(gap), error, abs(second.mean), LIMIT)
    return _verdict(entries, word, _sigmas(gap, error))


def no_worse(entries: Entries) -> Verdict:
    """The last mean is not a quarter below any other, beyond 2 errors.

    It does not hold if it is more than 2 errors below one of them.
    """
    *others, last = entries.values()
    gaps = [(*_between(other, last), abs(other.mean)) for other in others]
    return _verdict(entries, _all([_small(*gap, LIMIT) for gap in gaps]))


def little(entries: Entries) -> Verdict:
    """The best and the worst mean are less than a quarter of the mean apart, beyond 2 errors.

    It does not hold if they are more than 3 errors apart.
    """
    size, error, middle = _range(list(entries.values()))
    share = f"best − worst is {size / middle:.0%} of the mean" if middle else ""
    return _verdict(entries, _small(size, error, middle, EXTREMES), share)


def steadier(entries: Entries, names: tuple[str, str]) -> Verdict:
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


def outgrows(entries: Entries, names: tuple[str, str]) -> Verdict:
    """Of (slow before, slow after, fast before, fast after), fast grows by the larger factor."""
    halves = _halves(entries)
    (slow, slow_error), (fast, fast_error) = (_growth(*half) for half in halves)
    word = direction(fast - slow, math.hypot(slow_error, fast_error))
    ours = [f"×{math.exp(x):.2f}" for x in (slow, fast)]
    theirs = [f"×{after / before:.2f}" for before, after in _published(halves)]
    return _of_halves(entries, names, word, ours, theirs)


def _verdict(entries: Entries, word: str, note: str = "") -> Verdict:
    """What a rule says, unless there are too few seeds for any."""
    found = list(entries.values())
    few = too_few(found)
    return Verdict(few or word, _numbers(entries, _one_seed(found) if few else note))


def _of_halves(
    entries: Entries, names: tuple[str, str], word: str, ours: list[str], theirs: list[str]
) -> Verdict:
    """The same, with two numbers made of all the means."""
    found = list(entries.values())
    few = too_few(found)
    said, stated = (
        ", ".join(f"{name} {x}" for name, x in zip(names, row, strict=True)) if row else ""
        for row in (ours, theirs)
    )
    said = "" if few == NOT_RUN else f"{said} ({_seeds(found)})"
    return Verdict(few or word, _joined(said, _one_seed(found), stated))


def _one_seed(entries: Sequence[Entry]) -> str:
    return "one seed" if too_few(entries) == OPEN else ""


def _all(words: Sequence[str]) -> str:
    """All must hold; one that does not is enough."""
    return FAILS if FAILS in words else OPEN if OPEN in words else HOLDS


def _small(gap: float, error: float, size: float, most: float) -> str:
    """Holds if a gap is less than a quarter of `size`, beyond 2 errors; not beyond `most`."""
    if gap > most * error:
        return FAILS
    return HOLDS if gap + LIMIT * error < MARGIN * size else OPEN


def _between(high: Entry, low: Entry) -> tuple[float, float]:
    """Difference of two means, and √(SE² + SE²)."""
    return high.mean - low.mean, math.hypot(high.error, low.error)


def _growth(before: Entry, after: Entry) -> tuple[float, float]:
    """ln(after/before), and its error to first order."""
    if not (before.mean > 0 and after.mean > 0):
        return math.nan, math.nan
    errors = before.error / before.mean, after.error / after.mean
    return math.log(after.mean / before.mean), math.hypot(*errors)


def _range(entries: Sequence[Entry]) -> tuple[float, float, float]:
    """Best − worst, the combined error of these two, and the size of the mean of all."""
    best, worst = (pick(entries, key=lambda entry: entry.mean) for pick in (max, min))
    return *_between(best, worst), abs(sum(entry.mean for entry in entries)) / len(entries)


def _halves(entries: Entries) -> tuple[list[Entry], list[Entry]]:
    found = list(entries.values())
    return found[: len(found) // 2], found[len(found) // 2 :]


def _published(halves: Sequence[Sequence[Entry]]) -> list[list[float]]:
    """The paper's means; none if it does not state them all."""
    found = [[entry.published.mean for entry in half if entry.published] for half in halves]
    whole = all(len(row) == len(half) for row, half in zip(found, halves, strict=True))
    return found if whole else []


def _spread(means: Sequence[float]) -> float:
    return (max(means) - min(means)) * len(means) / sum(means)


def _sigmas(gap: float, error: float) -> str:
    return f"{typeset(f'{gap / error:+.1f}')} σ" if error > 0 else ""


def _seeds(entries: Sequence[Entry]) -> str:
    """How many seeds each has."""
    sizes = sorted({len(entry.values) for entry in entries})
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _numbers(entries: Entries, note: str = "") -> str:
    """Ours with the number of seeds in brackets, a note, and the paper's."""
    ours = ", ".join(f"{_named(name)} {each.ours}" for name, each in entries.items() if each.values)
    stated = {name: each for name, each in entries.items() if each.published}
    theirs = ", ".join(f"{_named(name)} {each.theirs}" for name, each in stated.items())
    return _joined(ours, note, theirs)


def _named(name: str) -> str:
    """With a colon if it ends in a digit, which the number would run into."""
    return f"{name}:" if name[-1].isdigit() else name


def _joined(ours: str, note: str, theirs: str) -> str:
    return "; ".join(filter(None, [ours, note, theirs and f"paper: {theirs}"]))
