"""Grids of runs: tasks, methods, values of settings and seeds, every combination."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from capo import zoo
from capo.config import Config, parse_steps
from capo.errors import UsageError
from capo.fields import check_names
from capo.sweeps.selection import Run, settle_for_task

MOST_RUNS = 10_000
"""Upper limit of the runs of a grid."""
OWN_FLAGS = {"env_id": "the tasks", "algo": "--algo", "seed": "--seeds", "preset": "--preset"}
"""Settings that a grid has words of its own for."""


def parse_values(text: str) -> tuple[str, tuple[Any, ...]]:
    """Reads name=value,value,… as a setting and its values; a list is written [64, 64]."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not values:
        raise UsageError(f"{text!r} is no setting with values; write learning_rate=3e-4,1e-3")
    if name in OWN_FLAGS:
        raise UsageError(f"{name} is not for --set; use {OWN_FLAGS[name]}")
    check_names(Config, [name])
    return name, tuple(_value(name, word) for word in _split(values))


def _split(values: str) -> list[str]:
    """The words between the commas that are in no bracket."""
    words, depth = [""], 0
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]


def _value(name: str, word: str) -> Any:
    """A number, true or false, none, a list, or a text."""
    if name == "total_steps":
        return parse_steps(word)
    if word.lower() == "none":
        return None
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        value = json.loads(word)
    except ValueError:
        return word
    return tuple(value) if isinstance(value, list) else value


def grid_runs(
    envs: Sequence[str],
    algos: Sequence[str],
    seeds: Sequence[int],
    values: Iterable[tuple[str, tuple[Any, ...]]],
    **fixed: Any,
) -> list[Run]:
    """Every combination, the first seed of all before the second; `fixed` are the same for all.

    A task takes its settings from the zoo, as `capo train` does, unless `fixed` has a preset.
    """
    axes = list(values)
    if twice := [name for name, _ in axes if [n for n, _ in axes].count(name) > 1]:
        raise UsageError(f"--set {twice[0]}=… is there twice; give all its values at once")
    combinations = list(itertools.product(*(given for _, given in axes)))
    count = len(envs) * len(algos) * len(seeds) * len(combinations)
    if not 0 < count <= MOST_RUNS:
        raise UsageError(f"the grid has {count} runs; it must have 1 to {MOST_RUNS}")
    runs = []
    for seed, env_id, algo in itertools.product(seeds, envs, algos):
        for chosen in combinations:
            changes = {name: value for (name, _), value in zip(axes, chosen, strict=True)}
            runs.append(_run(env_id, algo, seed, changes, fixed))
    keys = [run.key for run in runs]
    if len(set(keys)) < len(keys):
        raise UsageError("two runs of the grid are the same; leave values out that mean the same")
    return runs


def seed_runs(config: Config, seeds: Sequence[int]) -> list[Run]:
    """A run of a configuration for each seed."""
    label = label_of(config.env_id, config.algo, {})
    settled = settle_for_task(config)
    return [Run(label, settled.replace(seed=seed)) for seed in seeds]


def _run(env_id: str, algo: str, seed: int, changes: dict[str, Any], fixed: dict[str, Any]) -> Run:
    preset = fixed.get("preset", "auto")
    row = zoo.row(env_id, algo, preset)
    given = {"preset": preset, **row, **fixed, **changes}
    config = settle_for_task(Config(env_id, algo, seed=seed, **given))
    return Run(label_of(env_id, algo, changes), config)


def label_of(env_id: str, algo: str, changes: dict[str, Any]) -> str:
    """Name of the runs that differ in their seed alone, fit for a folder."""
    parts = [env_id, algo.replace("_", "-")]
    for name, value in changes.items():
        several = value if isinstance(value, tuple) else (value,)
        parts.append(f"{name}={'-'.join(map(str, several))}")
    return "".join(x if x.isalnum() or x in "._=-" else "-" for x in "__".join(parts))[:150]
