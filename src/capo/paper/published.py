"""The numbers of the paper, and functions that look them up."""

import functools
import json
from importlib import resources
from typing import Any

from capo.paper.measures import COMPUTE, DEPTH_COLUMNS
from capo.sweeps.design import Finder, Measure, Published, Variant
from capo.sweeps.results import REFERENCE

METHOD_NAMES = {
    "ppo": "PPO",
    "ppo-kx": "PPO-K×",
    "trpo": "TRPO",
    "capo-avg": "CAPO-Avg",
    "capo": "CAPO",
}
"""Names of the methods in the paper's sentences."""


@functools.cache
def published_numbers() -> dict[str, Any]:
    """The content of `published.json`."""
    return json.loads((resources.files("capo.paper") / "published.json").read_text("utf-8"))


def look_up(*path: str) -> Any:
    """The value at a path of `published.json`; None if there is none."""
    value: Any = published_numbers()
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def mean_at(*path: str) -> Published | None:
    """The mean and standard error at a path of `published.json`; None if there are none."""
    cell = look_up(*path)
    return Published(float(cell["mean"]), float(cell["se"])) if cell else None


def task_name(env_id: str) -> str:
    """Name of a task in the paper: Hopper for Hopper-v4."""
    return env_id.rpartition("-")[0]


def method_key(algo: str) -> str:
    """Name of a method in `published.json`: capo_avg for capo-avg."""
    return algo.replace("-", "_")


def _column_of(measure: Measure, columns: dict[str, Measure]) -> str:
    return next(name for name, each in columns.items() if each == measure)


def main_table(env: str, variant: Variant, _: Measure) -> Published | None:
    """Return by method and task, from the main table."""
    return mean_at("main", "rows", method_key(variant.algo), task_name(env))


def sweep_table(key: str) -> Finder:
    """Return by task, method and value, from a table that sweeps one setting."""

    def find(env: str, variant: Variant, _: Measure) -> Published | None:
        value = variant.changes[0][1] if variant.changes else ""
        column = "0" if value is None else f"{value}".removesuffix(".0")
        return mean_at(key, "rows", task_name(env), method_key(variant.algo), column)

    return find


def depth_hopper(_: str, variant: Variant, measure: Measure) -> Published | None:
    """Any measure by depth on Hopper."""
    columns = look_up("depth_hopper", "columns")
    row = next(row for row in look_up("depth_hopper", "rows") if row[0] == variant.changes[0][1])
    stated = dict(zip(columns, row, strict=True))
    name = _column_of(measure, DEPTH_COLUMNS)
    return (
        Published(stated[name], stated["return_se"])
        if name == "return"
        else Published(stated[name])
    )


def depth_halfcheetah(_: str, variant: Variant, measure: Measure) -> Published | None:
    """The alignment at three depths on HalfCheetah, from the text."""
    stated_at = {4: "alignment_at_E4", 10: "alignment_peak", 40: "alignment_at_E40"}
    key = stated_at.get(variant.changes[0][1])
    if key is None or measure != DEPTH_COLUMNS["alignment"]:
        return None
    return Published(look_up("depth_halfcheetah", key))


def column_table(key: str, columns: dict[str, Measure]) -> Finder:
    """Any measure by task, from a table with a column for each measure, and by method if it has."""

    def find(env: str, variant: Variant, measure: Measure) -> Published | None:
        row = look_up(key, "rows", task_name(env))
        row = row[method_key(variant.algo)] if isinstance(row, dict) else row
        if row is None:
            return None
        stated = dict(zip(look_up(key, "columns"), row, strict=True))
        name = _column_of(measure, columns)
        return Published(stated[name], stated.get(f"{name}_se", float("nan")))

    return find


def wall_clock_seconds(env: str, variant: Variant, _: Measure) -> Published | None:
    """PPO's seconds by task."""
    cell = (
        look_up("wall_clock", "ppo_seconds", task_name(env)) if variant.algo == REFERENCE else None
    )
    return Published(mean=cell[0], error=cell[1]) if cell else None


def wall_clock_ratio(env: str, variant: Variant, _: Measure) -> Published | None:
    """Seconds relative to PPO's by method and task."""
    ratio = look_up("wall_clock", "ratio", method_key(variant.algo), task_name(env))
    return Published(ratio) if ratio else None


def compute_table(_: str, variant: Variant, measure: Measure) -> Published | None:
    """Compute in multiples of PPO's, for K = 4; the paper has no row for TRPO."""
    several = variant.algo in ("ppo-kx", "best-of-k", "capo-avg", "capo")
    if variant.algo == "trpo":
        return None
    more = 4.0 if several and _column_of(measure, COMPUTE) == "gradient_steps" else 1.0
    return Published(more)
