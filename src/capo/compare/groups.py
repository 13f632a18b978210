"""Groups of runs: seeds of one method with one set of settings in one environment."""

import dataclasses
import functools
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from capo.config import Config
from capo.fields import names_where
from capo.presets import preset_values
from capo.report.format import NOTHING, compact
from capo.runs.reading import SavedRun

NOT_COMPARED = set(names_where(Config, compared=False))
OF_METHOD = set(names_where(Config, of_method=True))


@functools.cache
def defaults_of(algo: str) -> dict[str, Any]:
    """The default settings of a method, by name."""
    fields = dataclasses.fields(Config)
    given = {x.name: x.default for x in fields if x.default is not dataclasses.MISSING}
    return given | preset_values(Config.preset, algo)


class Group(NamedTuple):
    """The seeds of one method with one set of settings in one environment."""

    env_id: str
    algo: str
    label: str
    """The algorithm, and in brackets the settings that differ between its groups."""
    records: list[SavedRun]


def group_runs(records: Iterable[SavedRun]) -> tuple[list[Group], list[str]]:
    """Groups runs by environment, algorithm and settings; returns the groups and notes on them.

    ppo comes first; the groups of an algorithm are ordered by the number of settings that are not
    default. A setting that differs between runs of an algorithm in one environment is named in the
    labels of that algorithm in all environments.
    """
    cells: dict[tuple[str, str], list[SavedRun]] = defaultdict(list)
    for record in records:
        cells[record.env_id, record.algo].append(record)
    named: dict[str, list[str]] = defaultdict(list)
    for (_, algo), here in cells.items():
        named[algo] += [name for name in _differing(here) if name not in named[algo]]
    groups: dict[tuple[str, str, str], list[SavedRun]] = defaultdict(list)
    for (env_id, algo), here in cells.items():
        for record in here:
            groups[env_id, algo, _label(record, named[algo])].append(record)
    notes: list[str] = []
    order = {key: _non_default(here[0], named[key[1]]) for key, here in groups.items()}
    ordered = sorted(groups, key=lambda k: (k[0], k[1] != "ppo", k[1], order[k], k[2]))
    result = [
        Group(
            env_id=env_id,
            algo=algo,
            label=label,
            records=_one_run_per_seed((env_id, algo, label), groups[env_id, algo, label], notes),
        )
        for env_id, algo, label in ordered
    ]
    for here in result:
        notes += _unequal_runs(here)
    return result, [*notes, *_unequal_settings(result, named)]


def settings_as_json(record: SavedRun) -> dict[str, str]:
    """Every setting as JSON; settings that an older run lacks have their defaults."""
    values = {**defaults_of(record.algo), **record.config}
    return {k: json.dumps(v, sort_keys=True) for k, v in values.items() if k not in NOT_COMPARED}


def _differing(records: list[SavedRun]) -> list[str]:
    """Settings that differ, except those that a preset decides if the preset differs."""
    settings = [settings_as_json(record) for record in records]
    names = dict.fromkeys(name for each in settings for name in each)
    differ = [name for name in names if len({each.get(name) for each in settings}) > 1]
    if "preset" in differ:
        differ = [name for name in differ if not all(_by_preset(r.config, name) for r in records)]
    return differ


def _by_preset(config: dict[str, Any], name: str) -> bool:
    decided = preset_values(str(config.get("preset")), str(config.get("algo")))
    return name in decided and config.get(name) == decided[name]


def _label(record: SavedRun, names: list[str]) -> str:
    values = {**defaults_of(record.algo), **record.config}
    listed = ", ".join(f"{name}={_short(values.get(name))}" for name in names)
    return f"{record.algo} ({listed})" if listed else record.algo


def _non_default(record: SavedRun, names: list[str]) -> int:
    """Number of settings that are not default."""
    values, usual = settings_as_json(record), defaults_of(record.algo)
    return sum(values.get(name) != json.dumps(usual.get(name)) for name in names)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_short, value))
    return NOTHING if value is None else str(value)


def _one_run_per_seed(
    key: tuple[str, str, str], records: list[SavedRun], notes: list[str]
) -> list[SavedRun]:
    """One run for each seed: finished before unfinished, then most steps, then newest."""
    seeds: dict[int, list[SavedRun]] = defaultdict(list)
    for record in records:
        seeds[record.seed].append(record)
    for seed, runs in seeds.items():
        runs.sort(key=lambda r: (r.status == "finished", r.steps, r.began))
        if len(runs) > 1:
            where, last = f"{key[0]}, {key[2]}", runs[-1].path
            notes.append(f"{where}: seed {seed} has {len(runs)} runs; {last} is used")
    return [seeds[seed][-1] for seed in sorted(seeds)]


def _unequal_runs(group: Group) -> list[str]:
    """Notes on different numbers of steps and on unfinished runs in a group."""
    where, notes = f"{group.env_id}, {group.label}", []
    asked = sorted({record.asked for record in group.records})
    if len(asked) > 1:
        lengths = " and ".join(compact(steps) for steps in asked)
        notes.append(f"{where}: runs of {lengths} steps are in one group")
    for record in group.records:
        if record.status != "finished":
            so_far = f"{compact(record.steps)} of {compact(record.asked)} steps"
            notes.append(f"{where}: seed {record.seed} is {record.status} at {so_far}")
    return notes


def _unequal_settings(groups: list[Group], named: dict[str, list[str]]) -> list[str]:
    """Notes on settings that differ between algorithms though they mean the same for all."""
    notes = []
    for env_id in dict.fromkeys(group.env_id for group in groups):
        here = [group for group in groups if group.env_id == env_id]
        in_labels = {name for group in here for name in named[group.algo]}
        values = {
            group.label: {
                **settings_as_json(r := group.records[0]),
                "total_steps": f"{r.asked:.0f}",
            }
            for group in here
        }
        names = dict.fromkeys(name for each in values.values() for name in each)
        for name in (n for n in names if n not in in_labels and n not in OF_METHOD):
            each = {label: group.get(name, NOTHING) for label, group in values.items()}
            if len(set(each.values())) > 1:
                listed = ", ".join(f"{label} {value}" for label, value in each.items())
                notes.append(f"{env_id}: {name} differs: {listed}")
    return notes
