"""Training runs in processes of their own, each kept to its cores."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from capo.config import UsageError
from capo.envs import available_cores
from capo.format import one_line

Cores = frozenset[int]
"""Those that a run may use; none where the system cannot be told."""


def places(jobs: int | None) -> list[Cores]:
    """The cores of each of `jobs` runs at a time, shared out evenly; by default one core each.

    Two runs with a core each get more done than one run after the other with both: a run leaves a
    core idle wherever it has only one thing to do.
    """
    count = available_cores()
    jobs = jobs or count
    if jobs > count:
        raise UsageError(f"--jobs is {jobs}; this process has {count} cores, which is the most")
    if not hasattr(os, "sched_getaffinity"):
        return [frozenset()] * jobs
    cores = sorted(os.sched_getaffinity(0))
    return [frozenset(cores[index::jobs]) for index in range(jobs)]


def start(words: Sequence[str], cores: Cores, log: Path) -> subprocess.Popen[bytes]:
    """Begins `capo train` with these words; what it prints goes to the end of `log`.

    It has a process group of its own, so that Ctrl-C reaches it only through `stop`.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "capo", "train", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if cores:
        # Before it has started a thread: the interpreter takes longer than this call.
        os.sched_setaffinity(process.pid, cores)
    return process


def last_line(log: Path) -> str:
    """The last thing that a run said."""
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.is_file() else []
    said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return one_line(said.removeprefix("capo: "))
