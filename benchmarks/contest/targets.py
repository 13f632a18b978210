"""What speed is wanted, and whether it was reached."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from contest.cases import CONTRIB_TRPO, MERGED, PHYSICS, SB3, SB3_SUBPROC, SBX, TASK, TASKS, WIDE
from contest.measured import Measured, fastest, median, samples
from contest.start import HELP, TRAIN, WARM
from marks import NOT_RUN

LIGHT = TASKS[:2]
"""Where the physics does not take most of the time of everyone."""


class Target(NamedTuple):
    """A ratio of two medians of the same heat, and how large or small it is to be."""

    what: str
    over: Callable[[Measured, str], str]
    """The contestant whose time is divided by that of `under`."""
    under: str
    limit: float
    faster: bool
    """Whether the ratio is to be at least `limit`; otherwise at most."""
    tasks: tuple[str, ...] = TASKS
    """Where the target holds; elsewhere the ratio is shown by itself."""
    close: bool = False
    """Whether both are ours, or the physics, and were compared in a heat of their own."""


def _sb3(measured: Measured, heat: str) -> str:
    return fastest(measured, heat, (SB3, SB3_SUBPROC))


def _fixed(name: str) -> Callable[[Measured, str], str]:
    return lambda measured, heat: name


TARGETS = (
    Target("`ppo`, times as fast as SB3's PPO", _sb3, "ppo", 3.5, True, LIGHT),
    Target("`ppo`, times as fast as SBX's PPO", _fixed(SBX), "ppo", 3.0, True, LIGHT),
    Target("`capo`, times as fast as SB3's PPO", _sb3, "capo", 3.0, True, LIGHT),
    Target("`capo-avg`, times as fast as SB3's PPO", _sb3, "capo-avg", 3.0, True, LIGHT),
    Target(
        "`trpo`, times as fast as SB3-contrib's", _fixed(CONTRIB_TRPO), "trpo", 3.0, True, LIGHT
    ),
    Target(
        "time of `ppo` over that of the physics alone",
        _fixed("ppo"),
        PHYSICS,
        1.35,
        False,
        close=True,
    ),
    *(
        Target(f"time of `{a}` over that of `ppo`", _fixed(a), "ppo", 1.10, False, close=True)
        for a in reversed(MERGED)
    ),
)
SECONDS = ((f"{TRAIN}, first generation{WARM}", TRAIN + WARM, 8.0), (HELP, HELP, 0.5))
"""What, its name in the start's heat, the most seconds."""


def ratio(measured: Measured, heat: str, over: str, under: str) -> tuple[float, float, float]:
    """Of the medians, and the least and greatest ratio that one round by itself gives.

    Raises `KeyError` if one of them was not run.
    """
    found = measured[heat]["found"]
    above, below = (median(measured, heat, name) for name in (over, under))
    if above is None or below is None:
        raise KeyError(over if above is None else under)
    rounds = [
        np.median([g["seconds"] for g in one]) / np.median([g["seconds"] for g in other])
        for one, other in zip(found[over]["rounds"], found[under]["rounds"], strict=True)
    ]
    return above / below, float(min(rounds)), float(max(rounds))


def close_ratio(measured: Measured, env: str, over: str, under: str) -> tuple[float, float, float]:
    """Median and quartiles of the ratios within a round: the machine has no time to change.

    Raises `KeyError` if one of them was not run.
    """
    found = measured[f"close-{env}"]["found"]
    pairs = zip(found[over]["rounds"], found[under]["rounds"], strict=True)
    ratios = [one[0]["seconds"] / other[0]["seconds"] for one, other in pairs]
    if not ratios:
        raise KeyError(over)
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return float(middle), float(low), float(high)


def verdict(good: bool) -> str:
    """In a word."""
    return "**reached**" if good else "**missed**"


def ratio_cell(measured: Measured, target: Target, env: str) -> str:
    """4.1 (3.9–4.2) reached."""
    heat = f"main-{env}"
    try:
        over = target.over(measured, heat)
        value, low, high = (
            close_ratio(measured, env, over, target.under)
            if target.close
            else ratio(measured, heat, over, target.under)
        )
    except KeyError:
        return NOT_RUN
    text = f"{value:.2f} ({low:.2f}–{high:.2f})"
    if env not in target.tasks:
        return text
    good = value >= target.limit if target.faster else value <= target.limit
    return f"{text} {verdict(good)}"


def ratio_table(measured: Measured) -> str:
    """A row for each ratio, a column for each task."""
    lines = [f"| | target | {' | '.join(TASKS)} |", f"|---|---:|{'---:|' * len(TASKS)}"]
    for target in TARGETS:
        limit = f"{'≥' if target.faster else '≤'} {target.limit:g}"
        cells = [ratio_cell(measured, target, env) for env in TASKS]
        lines.append(f"| {target.what} | {limit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def other_table(measured: Measured) -> str:
    """What is measured on one task only."""
    lines = ["| | target | measured | |", "|---|---:|---:|---|"]
    for algo in MERGED:
        try:
            value, low, high = close_ratio(measured, TASK, f"{algo} {WIDE}", "ppo")
            cells = f"{value:.2f} ({low:.2f}–{high:.2f}) | {verdict(value <= 2)}"
        except KeyError:
            cells = f"{NOT_RUN} | "
        lines.append(f"| time of `{algo}`, K = {WIDE}, over that of `ppo` | ≤ 2 | {cells} |")
    for what, name, most in SECONDS:
        values = samples(measured, "start", name)
        cells = f"{NOT_RUN} | "
        if len(values):
            cells = f"{np.median(values):.2f} s | {verdict(np.median(values) < most)}"
        lines.append(f"| {what} | < {most:g} s | {cells} |")
    return "\n".join(lines)
