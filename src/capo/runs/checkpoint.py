"""Checkpoints: the complete state of a run, in a folder that is written atomically.

`state.safetensors` holds the networks, both Adam states, the statistics and the state of the
environments; `manifest.json` holds the rest as JSON, with the digests of both files. Reading them
runs no code.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.config import Config
from capo.core.encoding import Encoder
from capo.errors import FileError, UsageError
from capo.methods import Settled, settle
from capo.model import stats_shell
from capo.rollout import Collector
from capo.runs.manifest import Written, facts_of
from capo.state import Generation, TrainState, blank, model_of
from capo.storage.files import (
    parse_json,
    remove_folder,
    replace_folder,
    restore_folders,
    sync_folder,
    write_synced,
)
from capo.storage.provenance import versions
from capo.storage.spaces import space_from_json, space_to_json
from capo.storage.tensors import (
    MAX_HEADER,
    check_schema,
    check_shapes,
    file_errors,
    open_tensors,
    pack,
    unflatten,
)

FORMAT = "capo-checkpoint"
SCHEMA = 1
MANIFEST, STATE = "manifest.json", "state.safetensors"
FOLDER = "checkpoints"
"""Folder of the checkpoints in a run folder."""
KEPT = 3
"""Number of checkpoints kept, the newest ones."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint folder."""

    path: Path
    step: Generation
    backend: str
    written: Written
    callbacks: list[Any]
    """[name, state] of each callback with a state."""
    versions: dict[str, str | None]
    devices: int

    @property
    def config(self) -> Config:
        """Configuration of the run."""
        return self.step.model.config


def save(
    folder: Path, step: Generation, backend: str, written: Written, callbacks: list[Any]
) -> Path:
    """Writes the checkpoint of a generation into `folder` and deletes all but the last three.

    The new checkpoint is on disk before another is deleted. Checkpoints of later generations are
    deleted too: they belong to rows that are no longer part of the run.
    """
    path = folder / f"{step.number + 1:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    restore_folders(folder)
    partial = folder / f".{path.name}.partial"
    partial.mkdir()
    state = pack(_tree(step), {"format": FORMAT, "schema": str(SCHEMA)})
    write_synced(partial / STATE, state)
    write_synced(partial / MANIFEST, _sealed(_manifest(step, backend, written, callbacks, state)))
    sync_folder(partial)
    replace_folder(partial, path)
    remove_after(folder, step.number)
    for other in list_checkpoints(folder)[:-KEPT]:
        remove_folder(other)
    return path


def remove_after(folder: Path, number: int) -> None:
    """Deletes the checkpoints of generations after `number`."""
    for path in list_checkpoints(folder):
        if int(path.name) > number + 1:
            remove_folder(path)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first. They may be damaged."""
    return sorted(path for path in folder.glob("[0-9]" * 8) if path.is_dir())


def _manifest(
    step: Generation, backend: str, written: Written, callbacks: list[Any], state: bytes
) -> dict[str, Any]:
    model = step.model
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "generation": step.number,
        "config": model.config.to_dict(),
        "observation_space": space_to_json(model.observation_space),
        "action_space": space_to_json(model.action_space),
        "backend": backend,
        "reset_seed": step.collector.seed,
        "recent": step.recent._asdict(),
        "seconds": step.info["seconds"],
        "progress": written._asdict(),
        "callbacks": callbacks,
        "versions": versions(),
        "devices": jax.device_count(),
        "files": {STATE: {"bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()}},
    }


def _tree(step: Generation) -> dict[str, Any]:
    """Every array of a checkpoint."""
    collector = step.collector._asdict()
    played, _ = collector.pop("played"), collector.pop("seed")
    arrays = {**step.state._asdict(), **collector}
    return {**arrays, "played": np.concatenate(played)} if played else arrays


def _sealed(content: dict[str, Any]) -> bytes:
    """JSON with its own digest as the last entry."""
    digest = hashlib.sha256(_json(content)).hexdigest()
    return _json({**content, "sha256": digest})


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint; raises `FileError`, with the name of the file, for anything else.

    Arrays are read only if their names, shapes and types are those of the configuration.
    """
    manifest, file = _read_manifest(path / MANIFEST), path / STATE
    with file_errors(path / MANIFEST):
        if set(manifest["files"]) != {STATE}:
            raise ValueError(f"its files are not {STATE} alone")
        listed = manifest["files"][STATE]
        if hashlib.sha256(_content(file, listed["bytes"])).hexdigest() != listed["sha256"]:
            raise FileError(f"{file} is damaged: its digest is not the one in {MANIFEST}")
        observation = space_from_json(manifest["observation_space"])
        action = space_from_json(manifest["action_space"])
        config = settle(Config.from_dict(manifest["config"]), observation)
    with open_tensors(file, FORMAT, SCHEMA) as arrays:
        tree = _like(config, observation, action, arrays.shapes)
        check_shapes(tree, arrays.shapes)
        tree = unflatten(tree, arrays.read())
    with file_errors(path / MANIFEST):
        return _assembled(path, manifest, config, (observation, action), tree)


def _content(file: Path, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes."""
    if file.is_symlink() or not file.is_file():
        raise FileError(f"{file} is missing or no plain file")
    if file.stat().st_size > most:
        raise FileError(f"{file} is damaged: it is longer than {most} bytes")
    return file.read_bytes()


def _read_manifest(file: Path) -> dict[str, Any]:
    with file_errors(file):
        content = _content(file, MAX_HEADER)
        manifest = parse_json(content.decode())
        del manifest["sha256"]
        if _sealed(manifest) != content:
            raise ValueError("its digest does not match its content")
        if manifest.get("format") != FORMAT:
            raise FileError(f"{file} is not of a capo checkpoint: it has no format {FORMAT}")
        check_schema(file, str(manifest.get("schema")), SCHEMA)
        return manifest


def _like(
    config: Settled,
    observation: gym.Space,
    action: gym.Space,
    shapes: dict[str, jax.ShapeDtypeStruct],
) -> dict[str, Any]:
    """The expected shapes and types; observations and actions have their own types."""
    encoder, envs = Encoder.of(config, observation), (config.num_envs,)
    shape = jax.ShapeDtypeStruct
    totals = ("accumulators", "episode_return", "episode_length")
    like = {
        **blank(config, observation, action)._asdict(),
        **{name: shape(envs, np.float64) for name in totals},
        "obs": shape((*envs, *encoder.shape), shapes["obs"].dtype),
        "obs_stats": stats_shell(encoder.stats_shape),
        "return_stats": stats_shell(()),
    }
    if "played" in shapes:
        steps = shapes["played"].shape[:1]
        like["played"] = shape((*steps, *envs, *(action.shape or ())), shapes["played"].dtype)
    return like


def _assembled(
    path: Path, manifest: dict[str, Any], config: Settled, spaces: tuple[Any, Any], tree: Any
) -> Checkpoint:
    played = tree.pop("played", None)
    state = TrainState(**{name: tree.pop(name) for name in TrainState._fields})
    taken = () if played is None else (played,)
    facts = facts_of(manifest)
    collector = Collector(**tree, seed=facts.reset_seed, played=taken)
    model = model_of(config.plain(), *spaces, state, collector)
    info = {
        "generation": float(facts.generation),
        "steps": float((facts.generation + 1) * config.batch_size),
        "seconds": facts.seconds,
    }
    step = Generation(
        number=facts.generation,
        state=state,
        collector=collector,
        recent=facts.recent,
        model=model,
        info=info,
    )
    return Checkpoint(
        path=path,
        step=step,
        backend=facts.backend,
        written=facts.written,
        callbacks=facts.callbacks,
        versions=facts.versions,
        devices=facts.devices,
    )


def load_newest(folder: Path, warn: Callable[[str], None] | None = None) -> Checkpoint:
    """The last checkpoint of a run folder.

    A damaged one is an error; with `warn`, the one before it is loaded instead.
    """
    paths = list_checkpoints(folder / FOLDER)
    for path in reversed(paths):
        try:
            return load(path)
        except UsageError as error:
            if warn is None:
                raise
            warn(f"{error}; trying the checkpoint before it")
    which = "whole checkpoint" if paths else "checkpoint"
    raise UsageError(f"{folder} holds no {which} to continue from")
