"""Speed targets, and whether they are reached."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.documents import NOT_RUN
from benchmarks.speed.cases import (
    CONSENSUS,
    CONTRIB_TRPO,
    MANY_EXPERTS,
    ON_BATCHES,
    PHYSICS,
    SB3,
    SB3_SUBPROC,
    SBX,
    TASK,
    TASKS,
)
from benchmarks.speed.measurements import Measurements, fastest, median, samples
from benchmarks.speed.startup import HELP, TRAIN, WARM

Spread = tuple[float, float, float]
"""A ratio, and its range."""
LIGHT = TASKS[:2]
"""Tasks on which the physics does not dominate the time of all programs."""


class Target(NamedTuple):
    """A ratio of two medians of one comparison, and the limit it should meet."""

    what: str
    over: Callable[[Measurements, str], str]
    """The program whose time is the numerator; `under` is the denominator."""
    under: str
    limit: float
    faster: bool
    """Whether the ratio should be at least `limit`; otherwise at most."""
    tasks: tuple[str, ...] = TASKS
    """Tasks with this target; on the others the ratio has no verdict."""
    paired: bool = False
    """Whether the ratio is from the paired comparison of capo's own methods."""


def _sb3(measured: Measurements, comparison: str) -> str:
    return fastest(measured, comparison, (SB3, SB3_SUBPROC))


def _fixed(name: str) -> Callable[[Measurements, str], str]:
    return lambda measured, comparison: name


TARGETS = (
    Target("speed of `ppo` relative to SB3's PPO", _sb3, "ppo", 3.5, True, LIGHT),
    Target("speed of `ppo` relative to SBX's PPO", _fixed(SBX), "ppo", 3.0, True, LIGHT),
    Target("speed of `capo` relative to SB3's PPO", _sb3, "capo", 3.0, True, LIGHT),
    Target("speed of `capo-avg` relative to SB3's PPO", _sb3, "capo-avg", 3.0, True, LIGHT),
    Target(
        "speed of `trpo` relative to SB3-contrib's", _fixed(CONTRIB_TRPO), "trpo", 3.0, True, LIGHT
    ),
    Target(
        "time of `ppo` relative to the physics alone",
        _fixed("ppo"),
        PHYSICS,
        1.35,
        False,
        paired=True,
    ),
    *(
        Target(f"time of `{a}` relative to `ppo`", _fixed(a), "ppo", 1.10, False, paired=True)
        for a in reversed(CONSENSUS)
    ),
    *(
        Target(
            f"time of `{a}` with eight batches of 1024 relative to `ppo` with one",
            _fixed(a + ON_BATCHES),
            "ppo" + ON_BATCHES,
            1.5,
            False,
            paired=True,
        )
        for a in reversed(CONSENSUS)
    ),
)
SECONDS = ((f"{TRAIN}, first generation{WARM}", TRAIN + WARM, 8.0), (HELP, HELP, 0.5))
"""Label, name in the startup comparison, largest number of seconds."""


def ratio(measured: Measurements, comparison: str, over: str, under: str) -> Spread:
    """The ratio of the medians, and the smallest and largest ratio of a single round.

    Raises `KeyError` if one of the programs was not run.
    """
    found = measured[comparison]["found"]
    above, below = (median(measured, comparison, name) for name in (over, under))
    if above is None or below is None:
        raise KeyError(over if above is None else under)
    rounds = [
        np.median([g["seconds"] for g in one]) / np.median([g["seconds"] for g in other])
        for one, other in zip(found[over]["rounds"], found[under]["rounds"], strict=True)
    ]
    return above / below, float(min(rounds)), float(max(rounds))


def paired_ratio(measured: Measurements, env: str, over: str, under: str) -> Spread:
    """Median and quartiles of the ratios within a round, in which the machine hardly changes.

    Raises `KeyError` if one of the programs was not run.
    """
    found = measured[f"paired-{env}"]["found"]
    pairs = zip(found[over]["rounds"], found[under]["rounds"], strict=True)
    ratios = [one[0]["seconds"] / other[0]["seconds"] for one, other in pairs]
    if not ratios:
        raise KeyError(over)
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return float(middle), float(low), float(high)


def verdict(good: bool) -> str:
    """Reached or missed, in bold."""
    return "**reached**" if good else "**missed**"


def ratio_cell(measured: Measurements, target: Target, env: str) -> str:
    """The ratio, its spread and the verdict, such as 4.10 (3.90–4.20) **reached**."""
    comparison = f"main-{env}"
    try:
        over = target.over(measured, comparison)
        value, low, high = (
            paired_ratio(measured, env, over, target.under)
            if target.paired
            else ratio(measured, comparison, over, target.under)
        )
    except KeyError:
        return NOT_RUN
    text = f"{value:.2f} ({low:.2f}–{high:.2f})"
    if env not in target.tasks:
        return text
    good = value >= target.limit if target.faster else value <= target.limit
    return f"{text} {verdict(good)}"


def ratio_table(measured: Measurements) -> str:
    """A row for each ratio, a column for each task."""
    lines = [f"| | target | {' | '.join(TASKS)} |", f"|---|---:|{'---:|' * len(TASKS)}"]
    for target in TARGETS:
        limit = f"{'≥' if target.faster else '≤'} {target.limit:g}"
        cells = [ratio_cell(measured, target, env) for env in TASKS]
        lines.append(f"| {target.what} | {limit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def other_table(measured: Measurements) -> str:
    """Targets on one task only."""
    lines = ["| | target | measured | |", "|---|---:|---:|---|"]
    for algo in CONSENSUS:
        try:
            value, low, high = paired_ratio(measured, TASK, f"{algo} {MANY_EXPERTS}", "ppo")
            cells = f"{value:.2f} ({low:.2f}–{high:.2f}) | {verdict(value <= 2)}"
        except KeyError:
            cells = f"{NOT_RUN} | "
        lines.append(f"| time of `{algo}`, K = {MANY_EXPERTS}, relative to `ppo` | ≤ 2 | {cells} |")
    for what, name, most in SECONDS:
        values = samples(measured, "startup", name)
        cells = f"{NOT_RUN} | "
        if len(values):
            cells = f"{np.median(values):.2f} s | {verdict(np.median(values) < most)}"
        lines.append(f"| {what} | < {most:g} s | {cells} |")
    return "\n".join(lines)
