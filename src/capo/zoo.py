"""The zoo: settings that were tuned for a task, from the rows of `zoo.toml`."""

import functools
import tomllib
from importlib.resources import files
from typing import Any

LIKE = {"capo-avg": "capo"}
"""Methods that take the settings of another one."""


@functools.cache
def _rows() -> dict[str, dict[str, Any]]:
    rows = tomllib.loads((files("capo") / "zoo.toml").read_text("utf-8"))
    return {task: rows[row["same"]] if "same" in row else row for task, row in rows.items()}


def tasks() -> list[str]:
    """The tasks that have a row."""
    return list(_rows())


def row(env_id: str, algo: str) -> dict[str, Any]:
    """The settings of a task for a method, among them `total_steps`; empty without a row."""
    found = _rows().get(env_id, {})
    algo = algo.replace("_", "-")
    shared = {name: value for name, value in found.items() if not isinstance(value, dict)}
    return shared | found.get(LIKE.get(algo, algo), {})
