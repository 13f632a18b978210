"""The folder of many runs: their run folders, and what is kept of the finished ones."""

import contextlib
import itertools
from pathlib import Path

from capo.config import Config
from capo.errors import UsageError
from capo.runs.reading import read_object
from capo.storage.files import check_output
from capo.sweeps.jobs import Job
from capo.sweeps.keys import RunKey, run_key
from capo.sweeps.selection import Run
from capo.sweeps.summaries import Summary, load_summary, save_summary, summarize


class Store:
    """Run folders in `out/runs`, and summaries of finished runs in `out/summaries`.

    A run with a summary is done; its run folder is not needed any more. Runs are found by their
    configuration: the names of files and folders are labels.
    """

    def __init__(self, out: Path):
        self.out, self.runs, self.summaries = out, out / "runs", out / "summaries"
        self._folders: dict[RunKey, Path] | None = None

    def check(self) -> None:
        """Raises if the folder has other content or cannot be written to."""
        begun = self.summaries.is_dir() or self.runs.is_dir()
        check_output(self.out, "index.html", "capo reproduce", begun)

    def create(self) -> None:
        """Creates the folders."""
        for folder in (self.runs, self.summaries):
            folder.mkdir(parents=True, exist_ok=True)

    def job(self, run: Run) -> Job:
        """The run as a launcher gets it."""
        return Job(run.config, self.folder(run))

    def folder(self, run: Run) -> Path:
        """The folder with the run's configuration; a new one if there is none."""
        if self._folders is None:
            self._folders = self._find_folders()
        if run.key not in self._folders:
            self._folders[run.key] = self.runs / self._unused_name(run, self._folders)
        return self._folders[run.key]

    def _find_folders(self) -> dict[RunKey, Path]:
        folders: dict[RunKey, Path] = {}
        for file in sorted(self.runs.glob("*/config.json")):
            with contextlib.suppress(UsageError):
                folders.setdefault(run_key(Config.from_dict(read_object(file))), file.parent)
        return folders

    def _unused_name(self, run: Run, folders: dict[RunKey, Path]) -> str:
        """The run's name, with a number if a run of another configuration has it."""
        taken = {folder.name for folder in folders.values()}
        taken |= {file.stem for file in self.summaries.glob("*.json")}
        numbered = (f"{run.name}~{number}" for number in itertools.count(2))
        return next(name for name in itertools.chain([run.name], numbered) if name not in taken)

    def results(self) -> dict[RunKey, Summary]:
        """All summaries, by the configuration of their run."""
        summaries: dict[RunKey, Summary] = {}
        for file in sorted(self.summaries.glob("*.json")):
            summary = load_summary(file)
            summaries.setdefault(run_key(Config.from_dict(summary.config)), summary)
        return summaries

    def add_summary(self, run: Run) -> Summary | None:
        """The summary of a finished run, which is written; None if the run is not finished."""
        folder = self.folder(run)
        manifest = folder / "manifest.json"
        if not manifest.is_file() or read_object(manifest).get("status") != "finished":
            return None
        summary = summarize(folder, folder.name)
        save_summary(self.summaries / f"{folder.name}.json", summary)
        return summary
