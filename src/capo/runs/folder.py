"""The run folder: configuration, metrics, checkpoints, model, evaluation and plot of a run."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from capo.config import Config
from capo.errors import EnvError, UsageError, name_of
from capo.evaluation import Evaluation
from capo.model import Model
from capo.runs import checkpoint
from capo.runs.manifest import Written
from capo.runs.options import Options
from capo.runs.reading import read_object, rows
from capo.runs.resume import Resumed
from capo.runs.tensorboard import Events, Sink
from capo.runs.tracking import Tracker
from capo.state import Generation
from capo.storage.files import RUNS, check_writable, errors_naming, write_json
from capo.storage.locks import Lock
from capo.storage.provenance import command, commit, machine, versions

MODEL = "model.safetensors"
"""File of the last policy."""
BEST = "best.safetensors"
"""File of the policy with the best evaluation."""
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


def claim(folder: Path) -> Lock:
    """Makes the folder of a new run and locks it."""
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return Lock(folder)


class RunFolder:
    """Writes the files of a run while it trains; every file is complete at all times."""

    def __init__(
        self,
        path: Path,
        config: Config,
        backend: str,
        options: Options | None = None,
        start: Resumed | None = None,
    ):
        """Creates the folder; with `start`, continues the resumed one. The caller locks it."""
        self.path, self.config, self._backend = path, config, backend
        self._options = options or Options()
        self.callbacks: Sequence[Any] = ()
        """Callbacks whose `state()` is saved in checkpoints."""
        self._states: list[Any] = start.checkpoint.callbacks if start else []
        if start is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            # Their rows of metrics.jsonl are cut off below.
            checkpoint.remove_after(path / checkpoint.FOLDER, start.checkpoint.step.number)
        self.last = start.checkpoint.step if start else None
        self._saved = self.last.number if self.last else None
        written = start.checkpoint.written if start else Written()
        self._rows, self._began = written.rows, time.monotonic() - written.wall_seconds
        self._manifest = self._first_manifest(start)
        self._sinks: list[Sink] = []
        if track := self._options.track:
            run_id = self._manifest.get("tracking", {}).get(track)
            tracker = Tracker(track, self._options.track_project, path, config, run_id)
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
        if self._due(step) and not step.recent.nonfinite:
            self.checkpoint()

    def _due(self, step: Generation) -> bool:
        """Whether a checkpoint is saved after this generation."""
        every = self._options.checkpoint_every
        if every is None:
            every = max(1, round(step.model.config.num_generations / CHECKPOINTS))
        return every > 0 and (step.number + 1) % every == 0

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
        self.last.model.save(self.path / MODEL)
        self._saved = self.last.number

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

    def finish(self, status: str, result: Evaluation | None = None) -> None:
        """Writes the model, the evaluation, the plot and the final status."""
        with errors_naming(self.path / "metrics.jsonl"):
            self._metrics.close()
        # Also after a checkpoint: a run that is resumed at its end may have been killed between
        # the checkpoint and the model.
        if self.last is not None:
            self.last.model.save(self.path / MODEL)
        if result is not None:
            write_json(self.path / "eval.json", result.to_dict())
        logged = self.rows()
        # If one fails to close, none is closed a second time.
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            if result is not None:
                sink.log({"steps": logged[-1]["steps"], "evaluation/return": result.mean})
            sink.close(status)
        if logged:
            self._draw(logged, result)
        wall = time.monotonic() - self._began
        ended = {**self._manifest, "status": status, "wall_seconds": round(wall, 3)}
        write_json(self.path / "manifest.json", ended)

    def _draw(self, logged: list[dict[str, Any]], result: Evaluation | None) -> None:
        from capo.report.plots import plot_run

        title = f"{self.config.env_id}, {self.config.algo}, seed {self.config.seed}"
        if result is not None:
            title += f": {result.mean:.0f} over {len(result.returns)} evaluation episodes"
        plot_run(self.path / "summary.png", self.config, logged, title)


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


def model_file(run: Path) -> Path:
    """The model file of a run folder, or the file or the checkpoint itself."""
    if run.is_dir() and not (run / checkpoint.STATE).is_file():
        if not (run / MODEL).is_file():
            raise UsageError(f"{run} holds no {MODEL}; is it a run folder?")
        return run / MODEL
    if not run.exists():
        raise UsageError(f"there is no run {run}")
    return run


def best_model(run: Path) -> Path:
    """The file of a run's policy with the best evaluation."""
    if not (run / BEST).is_file():
        raise UsageError(f"{run} holds no {BEST}; a run with --eval-every keeps one")
    return run / BEST


def read_model(run: Path) -> Model:
    """The model of a run folder, of one of its checkpoints, or in a model file."""
    try:
        file = model_file(run)
    except OSError as error:
        raise UsageError(f"{run} cannot be read: {error.strerror}") from error
    return checkpoint.load(file).step.model if file.is_dir() else Model.load(file)
