"""Many runs side by side, each on a core of its own; what is there already is not run again."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


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


def evaluation(folder: Path) -> float:
    """The mean return of the evaluation at the end."""
    return json.loads((folder / "eval.json").read_text())["mean"]


def rows(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def standard_error(values: list[float]) -> float:
    """Of the mean; not a number for one value."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def fill(page: Path, mark: str, text: str) -> None:
    """Writes `text` between the page's <!-- mark: begin --> and <!-- mark: end -->."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
