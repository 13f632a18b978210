"""Arms of the search for settings in which several experts pay, each with its twin.

The twin of an arm with K experts is PPO with the same schedule, optimizer state and learning rate.
An advantage that the twin has too is not due to the number of experts.
"""

from typing import Any

from capo.paper.design import Contrast, Experiment, Layout, Variant
from capo.paper.measures import RETURN, SECOND_HALF
from capo.paper.tasks import ANT, CHEETAH, HOPPER, WALKER

SEARCH_SEEDS = (11, 12, 13)
"""Seeds that settings are chosen on. They are part of no final table."""


def _arm(algo: str, setting: str, **changes: Any) -> Variant:
    return Variant(algo, setting, (("diagnostics", 0), *changes.items()))


def _ppo(schedule: str, carry: str, rate: float) -> Variant:
    return _arm("ppo", _named(schedule, carry, rate), **_changes(schedule, carry, rate))


def _averaged(experts: int, schedule: str, carry: str, rate: float) -> Variant:
    setting = f"K = {experts}, {_named(schedule, carry, rate)}"
    changes = _changes(schedule, carry, rate)
    return _arm("capo-avg", setting, experts=experts, **changes)


def _named(schedule: str, carry: str, rate: float) -> str:
    moments = "own moments" if carry == "best" else carry
    return ", ".join([schedule, moments, *([f"{1e4 * rate:g}e-4"] if rate != LOW else [])])


def _changes(schedule: str, carry: str, rate: float) -> dict[str, Any]:
    return {"schedule": schedule, "carry": carry, "learning_rate": rate}


LOW, HIGH = 3e-4, 6e-4
SCHEDULES = ("linear", "constant", "trapezoid")
REFERENCE = _ppo("linear", "best", LOW)
"""PPO with its default settings."""
RIVALS = tuple(
    _ppo(schedule, carry, rate)
    for rate in (LOW, HIGH)
    for schedule in SCHEDULES
    for carry in ("best", "reset")
)
"""The settings among which PPO's best are chosen."""
IN_REGION = {"line_search": "on", **_changes("constant", "reset", LOW)}
TWINS = {
    **{
        _averaged(experts, schedule, carry, rate): _ppo(schedule, twin, rate)
        for experts, schedule, carry, twin, rate in (
            (4, "constant", "reset", "reset", LOW),
            (8, "constant", "reset", "reset", LOW),
            (4, "trapezoid", "reset", "reset", LOW),
            (8, "trapezoid", "reset", "reset", LOW),
            (4, "linear", "reset", "reset", LOW),
            (4, "constant", "average", "best", LOW),
            (4, "constant", "reset", "reset", HIGH),
            (8, "constant", "reset", "reset", HIGH),
        )
    },
    _arm(
        "capo-avg",
        "K = 4, trapezoid, reset, no warmup",
        experts=4,
        warmup=0.0,
        **_changes("trapezoid", "reset", LOW),
    ): _ppo("trapezoid", "reset", LOW),
    _arm("capo", "K = 4, constant, reset, δ = 0.02", **IN_REGION, experts=4): _arm(
        "ppo", "constant, reset, δ = 0.02", **IN_REGION
    ),
}
"""Arms with several experts, and the twin of each."""
ARMS = tuple(dict.fromkeys((*RIVALS, *TWINS.values(), *TWINS)))
SEARCH = Experiment(
    "search",
    "Settings in which several experts pay",
    "not in the paper",
    "Schedule, optimizer state, learning rate and number of experts. Ratios are of the "
    "training return averaged over the second half of a run, with the same seed; brackets "
    "are 95% intervals. Settings are chosen here, so no final claim rests on these seeds.",
    (HOPPER, CHEETAH, WALKER, ANT),
    ARMS,
    SEARCH_SEEDS,
    (
        Layout("Training return, second half", ("label",), "env", (SECOND_HALF,)),
        Layout("Final return", ("label",), "env", (RETURN,)),
    ),
    "ratios",
    tuple(Contrast(arm, twin) for arm, twin in TWINS.items()),
    REFERENCE,
)
