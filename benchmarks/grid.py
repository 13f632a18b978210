"""Many runs side by side, each on a core of its own; what is there already is not run again."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import numpy as np

from capo import records
from capo.statistics import standard_error

NOT_RUN = "not run"
ROOT = Path(__file__).resolve().parent.parent


def write_only(what: str | None) -> bool:
    """Whether the command line asks for no training."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--write-only", action="store_true")
    return parser.parse_args().write_only


def train(runs: Iterable[tuple[Path, list[str]]]) -> None:
    """Trains into each folder with the words of its command, in the order given."""
    cores: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    with ThreadPoolExecutor(cores.qsize()) as pool:
        for folder, words in runs:
            pool.submit(_train, folder, words, cores)


def _train(folder: Path, words: list[str], cores: Queue[int]) -> None:
    if (folder / "eval.json").exists():
        return
    core = cores.get()
    try:
        command = [sys.executable, "-m", "capo", "train", *words, "--run-dir", str(folder)]
        print(f"training {folder.name}", flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.log").open("w") as log:
            pinned = ["taskset", "-c", str(core), *command]
            subprocess.run(pinned, stdout=log, stderr=subprocess.STDOUT, check=False)
    finally:
        cores.put(core)


def finished(parent: Path, pattern: str) -> list[Path]:
    """Folders of the finished runs whose name fits."""
    return sorted(file.parent for file in parent.glob(f"{pattern}/eval.json"))


def evaluations(folders: list[Path]) -> np.ndarray:
    """The mean return of the evaluation at the end of each run."""
    return np.array([records.read(folder).score.value for folder in folders])


def returns(folders: list[Path]) -> str:
    """1234 ± 56 (3), or that it was not run."""
    if not folders:
        return NOT_RUN
    values = evaluations(folders)
    return f"{values.mean():.0f} ± {standard_error(values):.0f} ({len(values)})"


def fill(page: Path, mark: str, text: str) -> None:
    """Writes `text` between the page's <!-- mark: begin --> and <!-- mark: end -->."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
