"""The run folder: configuration, metrics, checkpoints, model, evaluation and plot of a run."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from capo.config import Config
from capo.errors import EnvError, UsageError, name_of
from capo.evaluation import Evaluation
from capo.runs import checkpoint
from capo.runs.manifest import Written
from capo.runs.reading import read_object, rows
from capo.runs.resume import Resumed
from capo.runs.tensorboard import Events, Sink
from capo.runs.tracking import Service, Tracker
from capo.state import Generation
from capo.storage.files import RUNS, check_writable, errors_naming, write_json
from capo.storage.locks import Lock
from capo.storage.provenance import command, commit, machine, versions

MODEL, MODEL_EMA = "model.safetensors", "model-ema.safetensors"
"""Files of the last policy, and of its average over generations."""
CHECKPOINTS = 20
"""Checkpoints that a run saves by default."""


def default_folder(config: Config) -> Path:
    """runs/{env}__{algo}__{seed}__{time}."""
    env = config.env_id.replace("/", "-").replace(":", "-")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return RUNS / f"{env}__{config.algo}__{config.seed}__{stamp}"


def check_free(folder: Path) -> None:
    """Raises `UsageError` for a folder that a run cannot be written to."""
    if (folder / "config.json").exists():
        raise UsageError(
            f"{folder} already holds a run; choose another {name_of('run_dir')}, or "
            f"{name_of('resume', str(folder))}"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another {name_of('run_dir')}")
    check_writable(folder, f"; choose another {name_of('run_dir')}")


class Recording(NamedTuple):
    """How a run is recorded. None of it changes its numbers."""

    every: int | None = None
    """Generations between two checkpoints; None: about 5% of the run; 0: only at the end."""
    track: Service | None = None
    project: str = "capo"

    def due(self, step: Generation) -> bool:
        """Whether a checkpoint is saved after this generation."""
        every = self.every
        if every is None:
            every = max(1, round(step.model.config.generations / CHECKPOINTS))
        return every > 0 and (step.number + 1) % every == 0


class RunFolder:
    """Writes the files of a run while it trains; every file is complete at all times."""

    def __init__(
        self,
        path: Path,
        config: Config,
        backend: str,
        recording: Recording | None = None,
        start: Resumed | None = None,
    ):
        """Creates the folder; with `start`, continues the resumed one."""
        self.path, self.config, self._backend = path, config, backend
        self._recording = recording or Recording()
        self.callbacks: Sequence[Any] = ()
        """Callbacks whose `state()` is saved in checkpoints."""
        self._states: list[Any] = start.checkpoint.callbacks if start else []
        if start is None:
            check_free(path)
            path.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(path) if start is None else start.lock
        if start is not None:
            # Their rows of metrics.jsonl are cut off below.
            checkpoint.remove_after(path / checkpoint.FOLDER, start.checkpoint.step.number)
        self.last = start.checkpoint.step if start else None
        self._saved = self.last.number if self.last else None
        written = start.checkpoint.written if start else Written()
        self._rows, self._began = written.rows, time.monotonic() - written.wall_seconds
        self._manifest = self._first_manifest(start)
        self._sinks: list[Sink] = []
        if track := self._recording.track:
            run_id = self._manifest.get("tracking", {}).get(track)
            tracker = Tracker(track, self._recording.project, path, config, run_id)
            self._manifest["tracking"] = {track: tracker.run_id}
            self._sinks.append(tracker)
        self._metrics = _cut(path / "metrics.jsonl", written.bytes)
        write_json(path / "config.json", config.to_dict())
        write_json(path / "manifest.json", self._manifest)
        self._sinks.append(Events(path, int(self.last.info["steps"]) if self.last else None))

    def _first_manifest(self, start: Resumed | None) -> dict[str, Any]:
        """The manifest at the start; a resumed run keeps its entries and adds one."""
        now = {"command": command(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        here = {"versions": versions(), "commit": commit(), "machine": machine()}
        if start is None:
            return {"backend": self._backend, **now, **here, "status": "running"}
        before = read_object(self.path / "manifest.json")
        again = {"generation": start.checkpoint.step.number + 1, **now, "changed": start.changed}
        resumed = [*before.get("resumed", []), again]
        return {**before, **here, "resumed": resumed, "status": "running"}

    def record(self, step: Generation, info: dict[str, float]) -> None:
        """Callback: logs a generation, and saves a checkpoint if one is due."""
        self.last = step
        self._states = [
            [type(c).__name__, c.state()] for c in self.callbacks if hasattr(c, "state")
        ]
        self.log(info)
        # After an update that was not finite, the checkpoints before are the better ones.
        if self._recording.due(step) and not step.recent.kept:
            self.checkpoint()

    def log(self, row: dict[str, float]) -> None:
        """Appends a row to metrics.jsonl: integers without a point, null for non-finite values."""
        clean = {k: _plain(v) for k, v in row.items()}
        with errors_naming(self.path / "metrics.jsonl"):
            self._metrics.write((json.dumps(clean) + "\n").encode())
            self._metrics.flush()
        self._rows += 1
        for sink in self._sinks:
            sink.log(clean)

    def rows(self) -> list[dict[str, Any]]:
        """The rows logged so far."""
        return rows(self.path)

    def checkpoint(self) -> None:
        """Saves a checkpoint and the model, unless this generation is saved already."""
        if self.last is None or self.last.number == self._saved:
            return
        with errors_naming(self.path / "metrics.jsonl"):
            os.fsync(self._metrics.fileno())
        wall = time.monotonic() - self._began
        written = Written(self._rows, self._metrics.tell(), round(wall, 3))
        folder = self.path / checkpoint.FOLDER
        checkpoint.save(folder, self.last, self._backend, written, self._states)
        self._save_models(self.last)
        self._saved = self.last.number

    def _save_models(self, step: Generation) -> None:
        """Saves the model, and the average over generations; without one, none of before stays."""
        step.model.save(self.path / MODEL)
        if step.averaged is not None:
            step.averaged.save(self.path / MODEL_EMA)
        else:
            (self.path / MODEL_EMA).unlink(missing_ok=True)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Saves the last whole generation and the status of the run, however the block ends.

        After an error of the program itself no checkpoint is saved.
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

    def finish(
        self, status: str, result: Evaluation | None = None, of_average: Evaluation | None = None
    ) -> None:
        """Writes the model, the evaluations, the plot and the final status."""
        with errors_naming(self.path / "metrics.jsonl"):
            self._metrics.close()
        # Also after a checkpoint: a run that is resumed at its end may have been killed between
        # the checkpoint and the model.
        if self.last is not None:
            self._save_models(self.last)
        for name, each in (("eval.json", result), ("eval-ema.json", of_average)):
            if each is not None:
                write_json(self.path / name, each.to_dict())
        found = self.rows()
        # If one fails to close, none is closed a second time.
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
        from capo.report.plots import plot_run

        title = f"{self.config.env_id}, {self.config.algo}, seed {self.config.seed}"
        if result is not None:
            title += f": {result.mean:.0f} over {len(result.returns)} evaluation episodes"
        plot_run(self.path / "summary.png", self.config, found, title)


def _cut(file: Path, size: int) -> BinaryIO:
    """Opens a file for appending, cut to its first `size` bytes."""
    there = file.stat().st_size if file.exists() else 0
    if there < size:
        raise UsageError(f"{file} is damaged: it has {there} bytes, its checkpoint says {size}")
    with errors_naming(file):
        opened = file.open("r+b" if size else "wb")
        opened.truncate(size)
        opened.seek(size)
    return opened


def _plain(value: float) -> int | float | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def find_model(run: Path, ema: bool = False) -> Path:
    """The model file of a run folder, with `ema` that of the average over generations.

    A path of a file is the model file itself.
    """
    if run.is_dir():
        name, hint = MODEL, "is it a run folder?"
        if ema:
            name, hint = MODEL_EMA, f"was it trained with {name_of('ema')}?"
        if not (run / name).is_file():
            raise UsageError(f"{run} holds no {name}; {hint}")
        return run / name
    if not run.exists():
        raise UsageError(f"there is no run {run}")
    if ema:
        raise UsageError(f"{run} is a file; {name_of('ema', True)} needs a run folder")
    return run
