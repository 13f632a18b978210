"""The folder of a reproduction: run folders, their summaries, and what is made of them."""

from pathlib import Path

from capo.config import UsageError
from capo.files import check_writable
from capo.paper.selection import Run
from capo.paper.summaries import Summary, load, save, summarize
from capo.records import read_object

MARK = b'<meta name="generator" content="capo reproduce">'


class Store:
    """`out/runs` has the run folders, `out/summaries` what tables and figures are made from.

    A run counts as done once its summary is there: the run folder may be removed then.
    """

    def __init__(self, out: Path):
        self.out, self.runs, self.summaries = out, out / "runs", out / "summaries"

    def check(self) -> None:
        """Refuses a folder that holds something else, or that cannot be written to."""
        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"{self.out} is not a folder; choose another --out")
        if self.out.is_dir() and any(self.out.iterdir()) and not self._ours():
            raise UsageError(
                f"{self.out} holds something other than a reproduction; choose another --out"
            )
        check_writable(self.out, "; choose another --out")

    def _ours(self) -> bool:
        index = self.out / "index.html"
        page = index.is_file() and MARK in index.read_bytes()[:1000]
        return page or self.summaries.is_dir() or self.runs.is_dir()

    def open(self) -> None:
        """Makes what is not there."""
        for folder in (self.runs, self.summaries):
            folder.mkdir(parents=True, exist_ok=True)

    def folder(self, run: Run) -> Path:
        """The run folder of a run."""
        return self.runs / run.name

    def log(self, run: Run) -> Path:
        """What a run printed."""
        return self.runs / f"{run.name}.log"

    def results(self) -> dict[str, Summary]:
        """Every summary there is, by name."""
        if not self.summaries.is_dir():
            return {}
        files = sorted(self.summaries.glob("*.json"))
        return {file.stem: load(file) for file in files}

    def take_in(self, run: Run) -> Summary | None:
        """The summary of a run that is finished, written if it is new; None if it is not."""
        manifest = self.folder(run) / "manifest.json"
        if not manifest.is_file() or read_object(manifest).get("status") != "finished":
            return None
        found = summarize(self.folder(run), run.name)
        save(self.summaries / f"{run.name}.json", found)
        return found
