"""Which runs are seeds of the same thing, and what about them is not the same."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from capo.config import PRESETS, Config
from capo.format import NOTHING, compact
from capo.records import Record

NOT_A_SETTING = {"env_id", "algo", "seed", "total_steps", "diagnostics", "backend", "workers"}
"""What may differ between the seeds of one group (or is what the groups are named after)."""
OF_THE_METHOD = ("base_optimizer", "carry", "delta", "distill", "diversity", "experts",
                 "line_search", "trpo_", "warmup")  # fmt: skip
"""How the names of settings begin that are a method's own business."""
DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(Config)
    if field.default is not dataclasses.MISSING
}


class Group(NamedTuple):
    """The seeds of one method with one setting in one environment."""

    env_id: str
    algo: str
    label: str
    """The algorithm, and in brackets whatever tells this group from the others of it."""
    records: list[Record]


def group(records: Iterable[Record]) -> tuple[list[Group], list[str]]:
    """Groups by environment, algorithm and settings. With them, what a reader must know.

    ppo comes first, and of each algorithm what is closest to the default settings. A setting that
    is not alike in all runs of an algorithm in some environment is named in the labels of that
    algorithm, in all environments.
    """
    cells: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        cells[record.env_id, record.algo].append(record)
    named: dict[str, list[str]] = defaultdict(list)
    for (_, algo), found in cells.items():
        named[algo] += [name for name in _differing(found) if name not in named[algo]]
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for (env_id, algo), found in cells.items():
        for record in found:
            groups[env_id, algo, _label(record, named[algo])].append(record)
    notes: list[str] = []
    unusual = {key: _unusual(found[0], named[key[1]]) for key, found in groups.items()}
    ordered = sorted(groups, key=lambda k: (k[0], k[1] != "ppo", k[1], unusual[k], k[2]))
    result = [Group(*key, _one_a_seed(key, groups[key], notes)) for key in ordered]
    for found in result:
        notes += _unequal_runs(found)
    return result, [*notes, *_unequal_settings(result, named)]


def settings(record: Record) -> dict[str, str]:
    """Every setting as JSON; one that an older run does not know has its default."""
    found = {**DEFAULTS, **record.config}
    return {k: json.dumps(v, sort_keys=True) for k, v in found.items() if k not in NOT_A_SETTING}


def _differing(records: list[Record]) -> list[str]:
    """Settings that are not alike, but for those that go with a preset that is not."""
    found = [settings(record) for record in records]
    names = dict.fromkeys(name for each in found for name in each)
    differ = [name for name in names if len({each.get(name) for each in found}) > 1]
    if "preset" in differ:
        differ = [name for name in differ if not all(_by_preset(r.config, name) for r in records)]
    return differ


def _by_preset(config: dict[str, Any], name: str) -> bool:
    decided = PRESETS.get(str(config.get("preset")), {})
    return name in decided and config.get(name) == decided[name]


def _label(record: Record, names: list[str]) -> str:
    values = {**DEFAULTS, **record.config}
    said = ", ".join(f"{name}={_short(values.get(name))}" for name in names)
    return f"{record.algo} ({said})" if said else record.algo


def _unusual(record: Record, names: list[str]) -> int:
    """How many of the settings are not the defaults."""
    found = settings(record)
    return sum(found.get(name) != json.dumps(DEFAULTS.get(name)) for name in names)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_short, value))
    return NOTHING if value is None else str(value)


def _one_a_seed(key: tuple[str, str, str], records: list[Record], notes: list[str]) -> list[Record]:
    """A seed that was run again is not another sample: the run that came furthest counts."""
    seeds: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        seeds[record.seed].append(record)
    for seed, found in seeds.items():
        found.sort(key=lambda r: (r.status == "finished", r.steps, r.began))
        if len(found) > 1:
            where, last = f"{key[0]}, {key[2]}", found[-1].path
            notes.append(f"{where}: seed {seed} is there {len(found)} times; {last} counts")
    return [seeds[seed][-1] for seed in sorted(seeds)]


def _unequal_runs(found: Group) -> list[str]:
    """Runs of a group that did not go as far as the others."""
    where, notes = f"{found.env_id}, {found.label}", []
    asked = sorted({record.asked for record in found.records})
    if len(asked) > 1:
        lengths = " and ".join(compact(steps) for steps in asked)
        notes.append(f"{where}: runs of {lengths} steps are in one group")
    for record in found.records:
        if record.status != "finished":
            so_far = f"{compact(record.steps)} of {compact(record.asked)} steps"
            notes.append(f"{where}: seed {record.seed} is {record.status} at {so_far}")
    return notes


def _unequal_settings(groups: list[Group], named: dict[str, list[str]]) -> list[str]:
    """Settings in which the algorithms differ, though they mean the same for all of them."""
    notes = []
    for env_id in dict.fromkeys(found.env_id for found in groups):
        here = [found for found in groups if found.env_id == env_id]
        said = {name for found in here for name in named[found.algo]}
        values = {
            found.label: {**settings(r := found.records[0]), "total_steps": f"{r.asked:.0f}"}
            for found in here
        }
        names = dict.fromkeys(name for each in values.values() for name in each)
        for name in (n for n in names if n not in said and not n.startswith(OF_THE_METHOD)):
            each = {label: found.get(name, NOTHING) for label, found in values.items()}
            if len(set(each.values())) > 1:
                listed = ", ".join(f"{label} {value}" for label, value in each.items())
                notes.append(f"{env_id}: {name} is not the same: {listed}")
    return notes
