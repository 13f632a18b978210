"""The run folder: what is left of a training run."""

import importlib.metadata
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from capo.config import Config, UsageError
from capo.envs import available_cores
from capo.evaluation import Evaluation
from capo.events import Events, Sink
from capo.files import write_json
from capo.model import Model
from capo.tracking import Service, Tracker

PACKAGES = ("capo-rl", "jax", "gymnasium", "mujoco", "envpool")


def default_folder(config: Config) -> Path:
    """runs/{env}__{algo}__{seed}__{time}."""
    env = config.env_id.replace("/", "-").replace(":", "-")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{env}__{config.algo}__{config.seed}__{stamp}"


def check_free(folder: Path) -> None:
    """Refuses a folder that a run cannot be written to."""
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} already holds a run; choose another --run-dir")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another --run-dir")
    check_writable(folder, "; choose another --run-dir")


def check_writable(folder: Path, advice: str = "") -> None:
    """Refuses a folder that nothing can be written to, or that cannot be made."""
    parent = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not os.access(parent, os.W_OK):
        raise UsageError(f"{parent} cannot be written to{advice}")


def versions() -> dict[str, str | None]:
    """Installed versions of what decides a run's numbers; None for what is not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name.removesuffix("-rl")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name.removesuffix("-rl")] = None
    return found


class RunFolder:
    """Writes a run as it happens; every file is whole at all times."""

    def __init__(
        self,
        path: Path,
        config: Config,
        backend: str,
        track: Service | None = None,
        project: str = "capo",
    ):
        check_free(path)
        self.path, self.config = path, config
        self.rows: list[dict[str, Any]] = []
        path.mkdir(parents=True, exist_ok=True)
        self._sinks: list[Sink] = [Tracker(track, project, path, config)] if track else []
        self._manifest = {
            "versions": versions(),
            "backend": backend,
            "command": shlex.join([_program(), *sys.argv[1:]]),
            "commit": _commit(),
            "machine": _machine(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "status": "running",
        }
        self._began = time.monotonic()
        write_json(path / "config.json", config.to_dict())
        write_json(path / "manifest.json", self._manifest)
        self._metrics: TextIO = (path / "metrics.jsonl").open("w")
        self._sinks.append(Events(path))

    def log(self, row: dict[str, float]) -> None:
        """Appends a row to metrics.jsonl: whole numbers as such, null for what is not finite."""
        clean = {k: _plain(v) for k, v in row.items()}
        self.rows.append(clean)
        self._metrics.write(json.dumps(clean) + "\n")
        self._metrics.flush()
        for sink in self._sinks:
            sink.log(clean)

    def finish(self, model: Model | None, status: str, result: Evaluation | None) -> None:
        """Writes the model and the evaluation, if there are any, and says how the run ended."""
        self._metrics.close()
        if model is not None:
            model.save(self.path / "model.safetensors")
        if result is not None:
            write_json(self.path / "eval.json", result.to_dict())
        for sink in self._sinks:
            if result is not None:
                sink.log({"steps": self.rows[-1]["steps"], "evaluation/return": result.mean})
            sink.close(status)
        if self.rows:
            self._draw(result)
        wall = time.monotonic() - self._began
        write_json(
            self.path / "manifest.json",
            {**self._manifest, "status": status, "wall_seconds": round(wall, 3)},
        )

    def _draw(self, result: Evaluation | None) -> None:
        from capo.report import summary

        title = f"{self.config.env_id}, {self.config.algo}, seed {self.config.seed}"
        if result is not None:
            title += f": {result.mean:.0f} over {len(result.returns)} evaluation episodes"
        summary(self.path / "summary.png", self.config, self.rows, title)


def _program() -> str:
    """Capo for its own command line, else the script that is running."""
    name = Path(sys.argv[0]).name
    return "capo" if name in ("capo", "__main__.py") else name or "python"


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


def _machine() -> dict[str, Any]:
    import jax

    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": available_cores(),
        "devices": [str(device) for device in jax.devices()],
    }


def _commit() -> str | None:
    """The commit of this source tree, if it is a checkout."""
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
