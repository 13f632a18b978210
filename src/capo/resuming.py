"""Going on with a run: where from, with which configuration, and what is not as it was."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from capo.backend import prepare_backend
from capo.checkpoint import FOLDER, Checkpoint, load, newest
from capo.config import Config, UsageError, flag
from capo.envs import VectorEnv
from capo.files import check_writable, restore_folders
from capo.locks import Lock
from capo.methods import resolve
from capo.model import check_fit
from capo.observations import settle
from capo.provenance import versions
from capo.records import read_object
from capo.rollout import Collector, reset_seed
from capo.train import Generation

FIXED = (
    "algo",
    "preset",
    "num_envs",
    "num_steps",
    "network",
    "hidden",
    "activation",
    "frame_stack",
    "state_dependent_std",
)
"""What a run cannot change on its way: its method, the size of a batch, the networks."""
ELSEWHERE = ("env_id", "seed", "backend")
"""What the way of the environments since their last reset does not fit, once it changes."""
FREE = ("workers",)
"""What may be different each time: it is no part of what a run is."""
Say = Callable[[str], None]


class FinishedError(UsageError):
    """There is nothing left to do in a run."""


class Resumed(NamedTuple):
    """A run folder that is ours now, and where in it to go on."""

    folder: Path
    lock: Lock
    checkpoint: Checkpoint
    changed: dict[str, list[Any]]
    """[before, after] of each field of the configuration that is different from now on."""
    override: bool

    def close(self) -> None:
        """Lets others have the folder."""
        self.lock.release()


def run_of(path: Path) -> Path:
    """The run folder that a path means: itself, or the one that a checkpoint is in."""
    folder = path.parent.parent if path.parent.name == FOLDER else path
    if not (folder / "config.json").is_file():
        raise UsageError(f"there is no run {folder} to resume")
    return folder


def saved_config(folder: Path) -> Config:
    """The configuration that a run folder says it was begun with."""
    file = folder / "config.json"
    try:
        return Config.from_dict(read_object(file))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error


def reopen(path: Path, config: Config | None, override: bool, say: Say | None) -> Resumed:
    """Takes a run folder, or one checkpoint in it, and checks that the run can go on from there.

    `config` is what it is to go on with (None: its own). With `say`, damaged checkpoints are passed
    over in favour of earlier ones, and told of; else they are refused.
    """
    prepare_backend()
    folder = run_of(path)
    check_writable(folder)
    lock = Lock(folder)
    try:
        if (folder / FOLDER).is_dir():
            restore_folders(folder / FOLDER)
        found = newest(folder, say) if path == folder else load(path)
        changed = {} if config is None else _changes(found, config)
        _check_changes(folder, changed, override)
        config = found.config.replace(**{name: after for name, (_, after) in changed.items()})
        model = dataclasses.replace(found.step.model, config=config)
        found = found._replace(step=found.step._replace(model=model))
        _check_unfinished(folder, found)
    except BaseException:
        lock.release()
        raise
    return Resumed(folder, lock, found, changed, override)


def _changes(found: Checkpoint, config: Config) -> dict[str, list[Any]]:
    """[before, after] of every field that differs, once each `auto` is settled."""
    wanted = settle(resolve(config), found.step.model.observation_space)
    pairs = zip(dataclasses.fields(Config), *map(_values, (found.config, wanted)), strict=True)
    return {field.name: [old, new] for field, old, new in pairs if old != new}


def _values(config: Config) -> list[Any]:
    return [getattr(config, field.name) for field in dataclasses.fields(Config)]


def _check_changes(folder: Path, changed: dict[str, list[Any]], override: bool) -> None:
    listed = ", ".join(f"{flag(name)} {old} → {new}" for name, (old, new) in changed.items())
    if fixed := [flag(name) for name in changed if name in FIXED]:
        raise UsageError(
            f"{' '.join(fixed)} cannot change within a run ({listed}); begin a new one"
        )
    if set(changed) - set(FREE) and not override:
        raise UsageError(
            f"{folder} has another configuration: {listed}; leave that out, or add --override"
        )


def _check_unfinished(folder: Path, found: Checkpoint) -> None:
    done, asked = found.step.number + 1, found.config.generations
    if done >= asked and read_object(folder / "manifest.json").get("status") == "finished":
        more = 2 * found.config.total_steps
        raise FinishedError(
            f"{folder} is finished: {done} of {asked} generations; "
            f"to train on, ask for more, such as -n {more} --override"
        )


def take_up(found: Resumed, env: VectorEnv, replay: bool, say: Say) -> Generation:
    """The generation to go on from, with the environments (as the network sees them) in place.

    They are reset as they last were and stepped through the actions since, which leads exactly to
    where they stood; without `replay` they begin new episodes instead.
    """
    before, step = found.checkpoint, found.checkpoint.step
    config, collector = before.config, step.collector
    check_fit(step.model, env.observation_space, env.action_space, config.env_id)
    if env.backend != before.backend and not found.override:
        raise UsageError(
            f"the run was stepped by {before.backend}, here it would be {env.backend}; "
            f"install what is missing, or add --override"
        )
    for note in _unlike(before):
        say(f"{note}: the run goes on, but perhaps not bit for bit as it would have")
    stats = (collector.obs_stats, collector.return_stats)
    moved = env.backend != before.backend or set(found.changed) & set(ELSEWHERE)
    if moved or not replay:
        say("the environments begin new episodes")
        seed = reset_seed(config, step.number)
        return step._replace(collector=Collector.begin(env, *stats, seed))
    obs = collector.replay(env)
    if not np.array_equal(obs, collector.obs):
        say(
            "the environments did not come back to where they stood, so they are not a function of "
            "their seed: the run goes on, but not as it would have"
        )
    return step._replace(collector=collector._replace(obs=obs))


def _unlike(before: Checkpoint) -> list[str]:
    """What differs from when the checkpoint was saved, of all that decides rounding."""
    now = versions()
    notes = [
        f"{name} was {before.versions.get(name)}, is {version}"
        for name, version in now.items()
        if before.versions.get(name) != version
    ]
    if before.devices != jax.device_count():
        notes.append(f"there were {before.devices} devices, are {jax.device_count()}")
    return notes
