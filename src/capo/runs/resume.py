"""Resuming a run: which folder, which checkpoint, and with which configuration."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from capo.config import Config
from capo.envs.base import VectorEnv
from capo.errors import FinishedError, UsageError, name_of
from capo.fields import names_where
from capo.methods import settle
from capo.runs.checkpoint import FOLDER, Checkpoint, list_checkpoints, load, load_newest
from capo.runs.reading import read_object
from capo.state import Generation
from capo.storage.compiled import prepare_jax
from capo.storage.files import RUNS, check_writable, restore_folders
from capo.storage.locks import Lock
from capo.storage.provenance import versions

Warn = Callable[[str], None]


class Resumed(NamedTuple):
    """A locked run folder and the checkpoint to continue from."""

    folder: Path
    lock: Lock
    checkpoint: Checkpoint
    changed: dict[str, list[Any]]
    """[before, after] of each field of the configuration that changes."""
    override: bool


def run_folder_of(path: Path) -> Path:
    """The run folder of a path: the path itself, or the folder that holds a checkpoint."""
    folder = path.parent.parent if path.parent.name == FOLDER else path
    if not (folder / "config.json").is_file():
        raise UsageError(f"there is no run {folder} to resume")
    return folder


def saved_config(folder: Path) -> Config:
    """The configuration in a run folder."""
    return load_config(folder / "config.json")


def load_config(file: Path) -> Config:
    """The configuration in a file."""
    values = read_object(file)
    try:
        return Config.from_dict(values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error


def reopen(path: Path, config: Config | None, override: bool, warn: Warn | None) -> Resumed:
    """Locks a run folder, loads a checkpoint of it, and checks that the run can continue.

    `path` is a run folder or a checkpoint. `config` is the configuration to continue with (None:
    the run's own). With `warn`, a damaged checkpoint is reported and the one before it loaded;
    otherwise it is an error.
    """
    prepare_jax()
    folder = run_folder_of(path)
    check_writable(folder)
    with contextlib.ExitStack() as held:
        lock = held.enter_context(Lock(folder))
        if (folder / FOLDER).is_dir():
            restore_folders(folder / FOLDER)
        checkpoint = load_newest(folder, warn) if path == folder else load(path)
        changed = {} if config is None else _changes(checkpoint, config)
        _check_changes(folder, changed, override)
        config = checkpoint.config.replace(**{name: after for name, (_, after) in changed.items()})
        model = dataclasses.replace(checkpoint.step.model, config=config)
        checkpoint = checkpoint._replace(step=checkpoint.step._replace(model=model))
        _check_unfinished(folder, checkpoint)
        held.pop_all()
    return Resumed(
        folder=folder, lock=lock, checkpoint=checkpoint, changed=changed, override=override
    )


def _changes(checkpoint: Checkpoint, config: Config) -> dict[str, list[Any]]:
    """[before, after] of every field that differs, with each `auto` settled."""
    wanted = settle(config, checkpoint.step.model.observation_space)
    pairs = zip(dataclasses.fields(Config), *map(_values, (checkpoint.config, wanted)), strict=True)
    return {field.name: [old, new] for field, old, new in pairs if old != new}


def _values(config: Config) -> list[Any]:
    return [getattr(config, field.name) for field in dataclasses.fields(Config)]


def _check_changes(folder: Path, changed: dict[str, list[Any]], override: bool) -> None:
    listed = ", ".join(f"{name_of(name)} {old} → {new}" for name, (old, new) in changed.items())
    never = names_where(Config, on_resume="never")
    if fixed := [name_of(name) for name in never if name in changed]:
        raise UsageError(
            f"{' '.join(fixed)} cannot change within a run ({listed}); start a new one"
        )
    if set(changed) - set(names_where(Config, on_resume="always")) and not override:
        raise UsageError(
            f"{folder} has another configuration: {listed}; leave that out, or add "
            f"{name_of('override', True)}"
        )


def _check_unfinished(folder: Path, checkpoint: Checkpoint) -> None:
    done, asked = checkpoint.step.number + 1, checkpoint.config.num_generations
    if done >= asked and read_object(folder / "manifest.json").get("status") == "finished":
        more = 2 * checkpoint.config.total_steps
        raise FinishedError(
            f"{folder} is finished: {done} of {asked} generations; "
            f"to train on, ask for more, such as {name_of('total_steps', more)} "
            f"{name_of('override', True)}"
        )


def newest_run(run_dir: Path | None, config: Config) -> Path | None:
    """The run that `auto` selects: `run_dir`, or the newest unfinished run of `config`."""
    free = {name: getattr(config, name) for name in names_where(Config, on_resume="always")}
    wanted = _values(settle(config))
    for folder in candidates(run_dir):
        if run_dir is not None or _values(saved_config(folder).replace(**free)) == wanted:
            return folder
    return None


def reopen_newest(
    run_dir: Path | None, config: Config, override: bool, warn: Warn
) -> Resumed | None:
    """Reopens the run that `auto` selects; None if there is none yet.

    A run in `run_dir` without a checkpoint is cleared, so that a new one can start there.
    """
    folder = newest_run(run_dir, config)
    if folder is not None:
        return reopen(folder, config, override, warn)
    if run_dir is not None and without_checkpoint(run_dir):
        clear(run_dir)
    return None


def candidates(run_dir: Path | None) -> list[Path]:
    """`run_dir` if it holds a run, or every unfinished run below runs/, newest checkpoint first."""
    if run_dir is not None:
        resumable = (run_dir / "config.json").is_file() and not without_checkpoint(run_dir)
        return [run_dir] if resumable else []
    last = {}
    for manifest in RUNS.glob("*/manifest.json"):
        paths = list_checkpoints(manifest.parent / FOLDER)
        if paths and _unfinished(manifest.parent):
            last[manifest.parent] = paths[-1].stat().st_mtime
    return sorted(last, key=last.__getitem__, reverse=True)


def _unfinished(folder: Path) -> bool:
    """Whether a run is readable and not finished."""
    try:
        saved_config(folder)
        return read_object(folder / "manifest.json").get("status") != "finished"
    except UsageError:
        return False


def without_checkpoint(folder: Path) -> bool:
    """Whether a run ended before its first checkpoint, with nothing to keep."""
    saved = [path for path in (folder / FOLDER).glob("*") if path.suffix != ".partial"]
    begun, kept = (folder / "config.json", folder / "model.safetensors")
    return begun.is_file() and not saved and not kept.exists()


def clear(folder: Path) -> None:
    """Empties the folder of a run without a checkpoint; its rows are kept under another name."""
    metrics = folder / "metrics.jsonl"
    with Lock(folder):
        if metrics.exists() and metrics.stat().st_size:
            metrics.rename(folder / f"metrics-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
        # The configuration last: as long as it exists, the folder counts as not cleared.
        for name in ("events.out.tfevents.*", "metrics.jsonl", "manifest.json", "config.json"):
            for file in folder.glob(name):
                file.unlink()


def restore(resumed: Resumed, env: VectorEnv, replay: bool, warn: Warn) -> Generation:
    """The generation to continue from, with the (encoded) environments in the same state.

    They are reset from their last seed and stepped through the actions since then. Without `replay`
    the generation has no episodes instead.
    """
    before, step = resumed.checkpoint, resumed.checkpoint.step
    if env.backend != before.backend and not resumed.override:
        raise UsageError(
            f"the run was stepped by {before.backend}, here by {env.backend}; "
            f"install what is missing, or add {name_of('override', True)}"
        )
    for note in _differences(before):
        warn(f"{note}: the run continues, but perhaps not bit for bit as without the interruption")
    breaking = names_where(Config, on_resume="new-episodes")
    moved = env.backend != before.backend or set(resumed.changed) & set(breaking)
    if moved or not replay:
        warn("the environments begin new episodes")
        return step.without_episodes()
    obs = step.collector.replay(env)
    if not np.array_equal(obs, step.collector.obs):
        warn(
            "the replay did not bring the environments back to the same state, so they are not "
            "determined by their seed: the run continues, but not as without the interruption"
        )
    return step._replace(collector=step.collector._replace(obs=obs))


def _differences(before: Checkpoint) -> list[str]:
    """Versions and devices that differ from those of the checkpoint; they decide rounding."""
    now = versions()
    notes = [
        f"{name} was {before.versions.get(name)} and is {version}"
        for name, version in now.items()
        if before.versions.get(name) != version
    ]
    if before.devices != jax.device_count():
        notes.append(f"there were {before.devices} devices and are {jax.device_count()}")
    return notes
