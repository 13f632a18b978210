"""Checkpoints: all that decides how a run goes on, in a folder that is whole or not there.

`state.safetensors` has the networks, both Adam states, the statistics and where the environments
stand; `manifest.json` the rest as JSON, with the digests of both. Reading them runs no code.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.config import Config, UsageError
from capo.files import (
    parse_json,
    put_folder,
    remove_folder,
    restore_folders,
    sync_folder,
    write_synced,
)
from capo.model import Model, stats_shell
from capo.observations import Encoder
from capo.provenance import versions
from capo.rollout import Collector
from capo.spaces import space_from_json, space_to_json
from capo.tensors import (
    MOST_HEADER,
    FileError,
    check_fit,
    check_schema,
    fill,
    opened,
    pack,
    refusing,
)
from capo.train import Generation, Recent
from capo.update import TrainState, blank

FORMAT = "capo-checkpoint"
SCHEMA = 1
MANIFEST, STATE = "manifest.json", "state.safetensors"
FOLDER = "checkpoints"
"""Their place in a run folder."""
KEPT = 3
"""How many of the last checkpoints stay."""


class Progress(NamedTuple):
    """How far the files of the run folder had come."""

    rows: int = 0
    bytes: int = 0
    """Of metrics.jsonl."""
    wall_seconds: float = 0.0


class Checkpoint(NamedTuple):
    """What a folder of `save` holds."""

    path: Path
    step: Generation
    backend: str
    progress: Progress
    callbacks: list[Any]
    """[name, state] of each callback that has one."""
    versions: dict[str, str | None]
    devices: int

    @property
    def config(self) -> Config:
        """Of the run."""
        return self.step.model.config


def save(
    folder: Path, step: Generation, backend: str, progress: Progress, callbacks: list[Any]
) -> Path:
    """Writes the checkpoint of a generation into `folder`, then lets go of all but the last three.

    The new one is on disk before anything else is touched. Those of later generations belong to a
    future that this run did not have; they go too.
    """
    path = folder / f"{step.number + 1:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    restore_folders(folder)
    partial = folder / f".{path.name}.partial"
    partial.mkdir()
    state = pack(_tree(step), {"format": FORMAT, "schema": str(SCHEMA)})
    write_synced(partial / STATE, state)
    write_synced(partial / MANIFEST, _sealed(_manifest(step, backend, progress, callbacks, state)))
    sync_folder(partial)
    put_folder(partial, path)
    remove_after(folder, step.number)
    for other in found(folder)[:-KEPT]:
        remove_folder(other)
    return path


def remove_after(folder: Path, number: int) -> None:
    """Removes the checkpoints of generations after `number`: of a future the run does not have."""
    for path in found(folder):
        if int(path.name) > number + 1:
            remove_folder(path)


def found(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first; they need not be whole."""
    return sorted(path for path in folder.glob("[0-9]" * 8) if path.is_dir())


def _manifest(
    step: Generation, backend: str, progress: Progress, callbacks: list[Any], state: bytes
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
        "progress": progress._asdict(),
        "callbacks": callbacks,
        "versions": versions(),
        "devices": jax.device_count(),
        "files": {STATE: {"bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()}},
    }


def _tree(step: Generation) -> dict[str, Any]:
    """Every array of a checkpoint."""
    stands = step.collector._asdict()
    played, _ = stands.pop("played"), stands.pop("seed")
    arrays = {**step.state._asdict(), **stands}
    return {**arrays, "played": np.concatenate(played)} if played else arrays


def _sealed(content: dict[str, Any]) -> bytes:
    """JSON with its own digest for the last entry."""
    digest = hashlib.sha256(_json(content)).hexdigest()
    return _json({**content, "sha256": digest})


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def load(path: Path) -> Checkpoint:
    """Reads what `save` wrote; anything else is refused with one line that names the file.

    Arrays are read only if they are the very ones that the manifest asks for.
    """
    manifest, file = _read_manifest(path / MANIFEST), path / STATE
    with refusing(path / MANIFEST):
        if set(manifest["files"]) != {STATE}:
            raise ValueError(f"its files are not {STATE} alone")
        told = manifest["files"][STATE]
        if hashlib.sha256(_content(file, told["bytes"])).hexdigest() != told["sha256"]:
            raise FileError(f"{file} is damaged: its digest is not the one in {MANIFEST}")
        config = Config.from_dict(manifest["config"])
        seen, done = (space_from_json(manifest[f"{k}_space"]) for k in ("observation", "action"))
    with opened(file, FORMAT, SCHEMA) as arrays:
        tree = _like(config, seen, done, arrays.shapes)
        check_fit(tree, arrays.shapes)
        tree = fill(tree, arrays.read())
    with refusing(path / MANIFEST):
        return _assembled(path, manifest, config, (seen, done), tree)


def _content(file: Path, most: int) -> bytes:
    """Of a file of its own that is no larger than expected."""
    if file.is_symlink() or not file.is_file():
        raise FileError(f"{file} is missing or no plain file")
    if file.stat().st_size > most:
        raise FileError(f"{file} is damaged: it is longer than {most} bytes")
    return file.read_bytes()


def _read_manifest(file: Path) -> dict[str, Any]:
    with refusing(file):
        content = _content(file, MOST_HEADER)
        manifest = parse_json(content.decode())
        del manifest["sha256"]
        if _sealed(manifest) != content:
            raise ValueError("its digest does not fit its content")
        if manifest.get("format") != FORMAT:
            raise FileError(f"{file} is not of a capo checkpoint: it has no format {FORMAT}")
        check_schema(file, str(manifest.get("schema")), SCHEMA)
        return manifest


def _like(
    config: Config, seen: gym.Space, done: gym.Space, found: dict[str, jax.ShapeDtypeStruct]
) -> dict[str, Any]:
    """The shapes that the arrays must have; observations and actions keep their own types."""
    encoder, envs = Encoder.of(config, seen), (config.num_envs,)
    shape = jax.ShapeDtypeStruct
    totals = ("accumulators", "episode_return", "episode_length")
    like = {
        **blank(config, seen, done)._asdict(),
        **{name: shape(envs, np.float64) for name in totals},
        "obs": shape((*envs, *encoder.shape), found["obs"].dtype),
        "obs_stats": stats_shell(encoder.stats_shape),
        "return_stats": stats_shell(()),
    }
    if "played" in found:
        steps = found["played"].shape[:1]
        like["played"] = shape((*steps, *envs, *(done.shape or ())), found["played"].dtype)
    return like


def _assembled(
    path: Path, manifest: dict[str, Any], config: Config, spaces: tuple[Any, Any], tree: Any
) -> Checkpoint:
    played = tree.pop("played", None)
    state = TrainState(**{name: tree.pop(name) for name in TrainState._fields})
    taken = () if played is None else (played,)
    collector = Collector(**tree, seed=int(manifest["reset_seed"]), played=taken)
    stats = (collector.obs_stats, collector.return_stats)
    model = Model(config, *spaces, state.policy, state.critic, *stats)
    number, recent = int(manifest["generation"]), manifest["recent"]
    info = {
        "generation": float(number),
        "steps": float((number + 1) * config.batch_size),
        "seconds": float(manifest["seconds"]),
    }
    window = {
        "returns": tuple(map(float, recent["returns"])),
        "lengths": tuple(map(int, recent["lengths"])),
    }
    step = Generation(number, state, collector, Recent(**{**recent, **window}), model, info)
    progress = Progress(**manifest["progress"])
    names = ("backend", "callbacks", "versions", "devices")
    return Checkpoint(path, step, progress=progress, **{name: manifest[name] for name in names})


def newest(folder: Path, say: Callable[[str], None] | None = None) -> Checkpoint:
    """The last checkpoint of a run folder. A damaged one is refused, or passed over with `say`."""
    paths = found(folder / FOLDER)
    for path in reversed(paths):
        try:
            return load(path)
        except UsageError as error:
            if say is None:
                raise
            say(f"{error}; the one before it is tried")
    which = "whole checkpoint" if paths else "checkpoint"
    raise UsageError(f"{folder} holds no {which} to go on from")
