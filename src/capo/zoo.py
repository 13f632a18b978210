"""The zoo: settings that were tuned for a task, from the rows of `zoo.toml`."""

import functools
import tomllib
from importlib.resources import files
from typing import Any

LIKE = {"capo-avg": "capo"}
"""Methods that take the settings of another one."""


@functools.cache
def _rows() -> dict[str, dict[str, Any]]:
    return tomllib.loads((files("capo") / "zoo.toml").read_text("utf-8"))


def tasks(own: bool = False) -> list[str]:
    """The tasks that have a row; with `own`, without those that have the row of another."""
    return [task for task, found in _rows().items() if not (own and "same" in found)]


def row(env_id: str, algo: str, preset: str = "auto") -> dict[str, Any]:
    """The settings of a task for a method, among them `total_steps`.

    Empty without a row, and with a preset, which leaves the zoo out.
    """
    if preset != "auto":
        return {}
    found = _rows().get(env_id, {})
    found = _rows()[found["same"]] if "same" in found else found
    algo = algo.replace("_", "-")
    shared = {name: value for name, value in found.items() if not isinstance(value, dict)}
    return shared | found.get(LIKE.get(algo, algo), {})
