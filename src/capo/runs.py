"""The run folder: what is left of a training run, and what it goes on from."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from capo import checkpoint
from capo.checkpoint import Progress
from capo.config import Config, UsageError
from capo.envs import EnvError
from capo.evaluation import Evaluation
from capo.events import Events, Sink
from capo.files import RUNS, check_writable, naming, write_json
from capo.locks import Lock
from capo.provenance import command, commit, machine, versions
from capo.records import read_object, rows
from capo.resuming import Resumed
from capo.tracking import Service, Tracker
from capo.train import Generation

CHECKPOINTS = 20
"""How many a run saves unless asked otherwise."""


def default_folder(config: Config) -> Path:
    """runs/{env}__{algo}__{seed}__{time}."""
    env = config.env_id.replace("/", "-").replace(":", "-")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return RUNS / f"{env}__{config.algo}__{config.seed}__{stamp}"


def check_free(folder: Path) -> None:
    """Refuses a folder that a run cannot be written to."""
    if (folder / "config.json").exists():
        raise UsageError(
            f"{folder} already holds a run; choose another --run-dir, or --resume {folder}"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another --run-dir")
    check_writable(folder, "; choose another --run-dir")


def clear(folder: Path) -> None:
    """Lets a run begin anew that has come to no checkpoint; the rows it has left are set aside."""
    lock, metrics = Lock(folder), folder / "metrics.jsonl"
    if metrics.exists() and metrics.stat().st_size:
        metrics.rename(folder / f"metrics-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    # The configuration last: until it is gone, there is something to clear.
    for name in ("events.out.tfevents.*", "metrics.jsonl", "manifest.json", "config.json"):
        for file in folder.glob(name):
            file.unlink()
    lock.release()


class Recording(NamedTuple):
    """How a run is recorded; none of it decides its numbers."""

    every: int | None = None
    """Generations between two checkpoints; None: about 5% of the run; 0: only where it ends."""
    track: Service | None = None
    project: str = "capo"

    def due(self, step: Generation) -> bool:
        """Whether a checkpoint is to be saved after this generation."""
        every = self.every
        if every is None:
            every = max(1, round(step.model.config.generations / CHECKPOINTS))
        return every > 0 and (step.number + 1) % every == 0


class RunFolder:
    """Writes a run as it happens; every file is whole at all times."""

    def __init__(
        self,
        path: Path,
        config: Config,
        backend: str,
        recording: Recording | None = None,
        start: Resumed | None = None,
    ):
        """Begins a folder; with `start`, goes on with the one that was resumed."""
        self.path, self.config, self._backend = path, config, backend
        self._recording = recording or Recording()
        self.callbacks: Sequence[Any] = ()
        """Those whose `state()` belongs into a checkpoint."""
        self._states: list[Any] = start.checkpoint.callbacks if start else []
        if start is None:
            check_free(path)
            path.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(path) if start is None else start.lock
        if start is not None:
            # They count on rows that are cut off now.
            checkpoint.remove_after(path / checkpoint.FOLDER, start.checkpoint.step.number)
        self.last = start.checkpoint.step if start else None
        self._saved = self.last.number if self.last else None
        progress = start.checkpoint.progress if start else Progress()
        self._rows, self._began = progress.rows, time.monotonic() - progress.wall_seconds
        self._manifest = self._begun(start)
        self._sinks: list[Sink] = []
        if track := self._recording.track:
            known = self._manifest.get("tracking", {}).get(track)
            tracker = Tracker(track, self._recording.project, path, config, known)
            self._manifest["tracking"] = {track: tracker.known}
            self._sinks.append(tracker)
        self._metrics = _cut(path / "metrics.jsonl", progress.bytes)
        write_json(path / "config.json", config.to_dict())
        write_json(path / "manifest.json", self._manifest)
        self._sinks.append(Events(path, int(self.last.info["steps"]) if self.last else None))

    def _begun(self, start: Resumed | None) -> dict[str, Any]:
        """The manifest at the beginning; a run that is resumed keeps how it first began."""
        now = {"command": command(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        here = {"versions": versions(), "commit": commit(), "machine": machine()}
        if start is None:
            return {"backend": self._backend, **now, **here, "status": "running"}
        before = read_object(self.path / "manifest.json")
        again = {"generation": start.checkpoint.step.number + 1, **now, "changed": start.changed}
        resumed = [*before.get("resumed", []), again]
        return {**before, **here, "resumed": resumed, "status": "running"}

    def see(self, step: Generation, info: dict[str, float]) -> None:
        """The callback of the loop: logs a generation, and saves a checkpoint if one is due."""
        self.last = step
        self._states = [
            [type(c).__name__, c.state()] for c in self.callbacks if hasattr(c, "state")
        ]
        self.log(info)
        # Where a network had to stay as it was, the checkpoints before are the better ones.
        if self._recording.due(step) and not step.recent.kept:
            self.checkpoint()

    def log(self, row: dict[str, float]) -> None:
        """Appends a row to metrics.jsonl: whole numbers as such, null for what is not finite."""
        clean = {k: _plain(v) for k, v in row.items()}
        with naming(self.path / "metrics.jsonl"):
            self._metrics.write((json.dumps(clean) + "\n").encode())
            self._metrics.flush()
        self._rows += 1
        for sink in self._sinks:
            sink.log(clean)

    def rows(self) -> list[dict[str, Any]]:
        """What has been logged so far."""
        return rows(self.path)

    def checkpoint(self) -> None:
        """Saves all that decides how the run goes on, and the model so far, if that is not done."""
        if self.last is None or self.last.number == self._saved:
            return
        with naming(self.path / "metrics.jsonl"):
            os.fsync(self._metrics.fileno())
        wall = time.monotonic() - self._began
        progress = Progress(self._rows, self._metrics.tell(), round(wall, 3))
        folder = self.path / checkpoint.FOLDER
        checkpoint.save(folder, self.last, self._backend, progress, self._states)
        self.last.model.save(self.path / "model.safetensors")
        self._saved = self.last.number

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """However the block ends, the folder has the last whole generation and says what happened.

        What the program itself is the cause of leaves the checkpoints there are alone.
        """
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            with contextlib.suppress(OSError):
                if stopped or isinstance(error, EnvError):
                    self.checkpoint()
                self.finish("interrupted" if stopped else "failed")
            raise
        finally:
            self._lock.release()

    def finish(self, status: str, result: Evaluation | None = None) -> None:
        """Writes the model and the evaluation, if there are any, and says how the run ended."""
        with naming(self.path / "metrics.jsonl"):
            self._metrics.close()
        # Once more than a checkpoint did: a run that is resumed at its end may have been killed
        # between the checkpoint and the model.
        if self.last is not None:
            self.last.model.save(self.path / "model.safetensors")
        if result is not None:
            write_json(self.path / "eval.json", result.to_dict())
        found = self.rows()
        # If one of them fails, none is closed a second time.
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            if result is not None:
                sink.log({"steps": found[-1]["steps"], "evaluation/return": result.mean})
            sink.close(status)
        if found:
            self._draw(found, result)
        wall = time.monotonic() - self._began
        ended = {**self._manifest, "status": status, "wall_seconds": round(wall, 3)}
        write_json(self.path / "manifest.json", ended)
        self._lock.release()

    def _draw(self, found: list[dict[str, Any]], result: Evaluation | None) -> None:
        from capo.report import summary

        title = f"{self.config.env_id}, {self.config.algo}, seed {self.config.seed}"
        if result is not None:
            title += f": {result.mean:.0f} over {len(result.returns)} evaluation episodes"
        summary(self.path / "summary.png", self.config, found, title)


def _cut(file: Path, size: int) -> BinaryIO:
    """The file for appending, with what came after its first `size` bytes cut off."""
    there = file.stat().st_size if file.exists() else 0
    if there < size:
        raise UsageError(f"{file} is damaged: it has {there} bytes, its checkpoint says {size}")
    with naming(file):
        opened = file.open("r+b" if size else "wb")
        opened.truncate(size)
        opened.seek(size)
    return opened


def _plain(value: float) -> int | float | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def find_model(run: Path) -> Path:
    """The model file of a run folder, or the file itself."""
    if run.is_dir():
        if not (run / "model.safetensors").is_file():
            raise UsageError(f"{run} holds no model.safetensors; is it a run folder?")
        return run / "model.safetensors"
    if not run.exists():
        raise UsageError(f"there is no run {run}")
    return run
