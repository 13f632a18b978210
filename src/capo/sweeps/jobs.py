"""Jobs: runs as a launcher gets them."""

from pathlib import Path
from typing import NamedTuple

from capo.config import Config
from capo.storage.files import write_json
from capo.storage.text import one_line


class Job(NamedTuple):
    """A configuration, and the folder of its run; its file and its log are beside the folder."""

    config: Config
    folder: Path
    words: tuple[str, ...] = ()
    """Further arguments of `capo train`."""

    @property
    def file(self) -> Path:
        """The configuration as a file."""
        return self.folder.with_name(f"{self.folder.name}.json")

    @property
    def log(self) -> Path:
        """The output of the run."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def written(self) -> list[str]:
        """Writes the file; the arguments of `capo` that train the run, or go on with it."""
        write_json(self.file, self.config.to_dict())
        words = ["train", self.config.env_id, "--config", str(self.file)]
        named = [f"--wrapper={text}" for text in self.config.wrappers]
        named += [f"--network={self.config.network}"] if ":" in self.config.network else []
        goes_on = ["--run-dir", str(self.folder), "--resume", "auto"]
        return [*words, *named, *goes_on, *self.words]

    def last_line(self) -> str:
        """The last line of output."""
        log = self.log
        lines = log.read_text("utf-8", errors="replace").splitlines() if log.is_file() else []
        last = next((line for line in reversed(lines) if line.strip()), "no output")
        return one_line(last.removeprefix("capo: "))
