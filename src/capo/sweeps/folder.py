"""The folder of a sweep: a run folder for each run, and a manifest that names them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capo.config import Config
from capo.errors import UsageError
from capo.runs.reading import read_object
from capo.storage.files import check_writable, write_json
from capo.storage.provenance import command, commit, machine, versions
from capo.sweeps.jobs import Job
from capo.sweeps.keys import RunKey, run_key
from capo.sweeps.selection import Run
from capo.sweeps.summaries import Summary, summarize

MANIFEST = "sweep.json"
FORMAT = "capo-sweep"


class SweepFolder:
    """Ordinary run folders by the names of the runs, which a second sweep adds to."""

    def __init__(self, path: Path, runs: Sequence[Run], words: Sequence[str] = ()):
        """`words` are further arguments of `capo train` for every run."""
        self.path, self.runs, self._words = path, list(runs), tuple(words)

    def check(self) -> None:
        """Raises if the folder has something else, or a run of another configuration."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is not a folder; choose another --out")
        if self.path.is_dir() and any(self.path.iterdir()) and not self._manifest.is_file():
            raise UsageError(f"{self.path} has files that are not of a sweep; choose another --out")
        check_writable(self.path, "; choose another --out")
        for run in self.runs:
            file = self._folder(run) / "config.json"
            if file.is_file() and (differ := _differences(run.config, read_object(file))):
                raise UsageError(
                    f"{self.path} holds another sweep: {run.name} has {differ}; "
                    "choose another --out"
                )

    @property
    def _manifest(self) -> Path:
        return self.path / MANIFEST

    def _folder(self, run: Run) -> Path:
        return self.path / run.name

    def create(self) -> None:
        """Makes the folder, and writes the manifest: the names of all runs, and how they began."""
        self.path.mkdir(parents=True, exist_ok=True)
        before = read_object(self._manifest).get("runs") if self._manifest.is_file() else None
        known = [str(name) for name in before] if isinstance(before, list) else []
        names = list(dict.fromkeys([*known, *(run.name for run in self.runs)]))
        content: dict[str, Any] = {
            "format": FORMAT,
            "runs": names,
            "command": command(),
            "commit": commit(),
            "machine": machine(),
            "versions": versions(),
            "began": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        write_json(self._manifest, content)

    def finished(self) -> set[RunKey]:
        """The runs that are finished."""
        return {run.key for run in self.runs if self._is_finished(run)}

    def _is_finished(self, run: Run) -> bool:
        manifest = self._folder(run) / "manifest.json"
        return manifest.is_file() and read_object(manifest).get("status") == "finished"

    def job(self, run: Run) -> Job:
        """The run as a launcher gets it."""
        return Job(run.config, self._folder(run), self._words)

    def add_summary(self, run: Run) -> Summary | None:
        """The summary of a finished run; None if it is not finished."""
        return summarize(self._folder(run), run.name) if self._is_finished(run) else None


def _differences(config: Config, saved: dict[str, Any]) -> str:
    """The settings in which a saved configuration is not this one; empty if it is the same."""
    theirs = Config.from_dict(saved)
    if run_key(theirs) == run_key(config):
        return ""
    ours, values = config.to_dict(), theirs.to_dict()
    return ", ".join(f"{name}={values[name]}" for name in ours if values[name] != ours[name])
