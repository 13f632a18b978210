"""The numbers that the paper states, as data."""

import functools
import json
from importlib import resources
from typing import Any

from capo.paper.design import Finder, Measure, Published, Variant
from capo.paper.measures import COMPUTE, DEPTH_COLUMNS, REFERENCE


@functools.cache
def numbers() -> dict[str, Any]:
    """All of them, as `published.json` has them."""
    return json.loads((resources.files("capo.paper") / "published.json").read_text("utf-8"))


def look_up(*path: str) -> Any:
    """What stands at a path of the file; None if the paper does not say."""
    found: Any = numbers()
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def stated(*path: str) -> Published | None:
    """A mean with its standard error at a path of the file."""
    found = look_up(*path)
    return Published(float(found["mean"]), float(found["se"])) if found else None


def task(env_id: str) -> str:
    """The paper's name of a task: Hopper for Hopper-v4."""
    return env_id.rpartition("-")[0]


def method(algo: str) -> str:
    """The file's name of a method: capo_avg for capo-avg."""
    return algo.replace("-", "_")


def _name_of(columns: dict[str, Measure], measure: Measure) -> str:
    return next(name for name, each in columns.items() if each == measure)


def main(env: str, variant: Variant, _: Measure) -> Published | None:
    """The main table: return by method and task."""
    return stated("main", "rows", method(variant.algo), task(env))


def swept(key: str) -> Finder:
    """The tables in which one setting is swept: task, method, value."""

    def find(env: str, variant: Variant, _: Measure) -> Published | None:
        value = f"{variant.changes[0][1]}" if variant.changes else ""
        return stated(key, "rows", task(env), method(variant.algo), value.removesuffix(".0"))

    return find


def depth(_: str, variant: Variant, measure: Measure) -> Published | None:
    """The table of depths on Hopper: a row for each E, a column for each measure."""
    columns = look_up("depth_hopper", "columns")
    row = next(row for row in look_up("depth_hopper", "rows") if row[0] == variant.changes[0][1])
    found = dict(zip(columns, row, strict=True))
    name = _name_of(DEPTH_COLUMNS, measure)
    return (
        Published(found[name], found["return_se"]) if name == "return" else Published(found[name])
    )


def fisher_epochs(_: str, variant: Variant, measure: Measure) -> Published | None:
    """What the text states of the figure for HalfCheetah: the alignment at three depths."""
    stated_at = {4: "alignment_at_E4", 10: "alignment_peak", 40: "alignment_at_E40"}
    key = stated_at.get(variant.changes[0][1])
    if key is None or measure != DEPTH_COLUMNS["alignment"]:
        return None
    return Published(look_up("depth_halfcheetah", key))


def of_columns(key: str, columns: dict[str, Measure]) -> Finder:
    """Tables with a column for each measure; the waste's has a row for each method as well."""

    def find(env: str, variant: Variant, measure: Measure) -> Published | None:
        row = look_up(key, "rows", task(env))
        row = row[method(variant.algo)] if isinstance(row, dict) else row
        if row is None:
            return None
        found = dict(zip(look_up(key, "columns"), row, strict=True))
        name = _name_of(columns, measure)
        return Published(found[name], found.get(f"{name}_se", float("nan")))

    return find


def seconds(env: str, variant: Variant, _: Measure) -> Published | None:
    """PPO's seconds by task."""
    found = look_up("wall_clock", "ppo_seconds", task(env)) if variant.algo == REFERENCE else None
    return Published(*found) if found else None


def overhead(env: str, variant: Variant, _: Measure) -> Published | None:
    """Seconds over PPO's by method and task."""
    found = look_up("wall_clock", "ratio", method(variant.algo), task(env))
    return Published(found) if found else None


def compute(_: str, variant: Variant, measure: Measure) -> Published | None:
    """The paper's table in multiples of PPO's, for K = 4; it has no row for TRPO."""
    several = variant.algo in ("ppo-kx", "best-of-k", "capo-avg", "capo")
    if variant.algo == "trpo":
        return None
    more = 4.0 if several and _name_of(COMPUTE, measure) == "gradient_steps" else 1.0
    return Published(more)
