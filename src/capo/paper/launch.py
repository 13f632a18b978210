"""Training runs as subprocesses, each pinned to its own cores."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from capo.core.devices import available_cores
from capo.errors import UsageError
from capo.storage.text import one_line

Cores = frozenset[int]
"""Cores that a run may use; empty where the system cannot pin processes."""


def core_sets(jobs: int | None) -> list[Cores]:
    """The cores divided evenly among `jobs` simultaneous runs; None: one core for each run.

    Two runs with one core each finish sooner than two runs in sequence with both cores, because
    the serial parts of a run leave a core idle.
    """
    count = available_cores()
    jobs = jobs or count
    if jobs > count:
        raise UsageError(f"--jobs is {jobs}; this process has {count} cores")
    if not hasattr(os, "sched_getaffinity"):
        return [frozenset()] * jobs
    cores = sorted(os.sched_getaffinity(0))
    return [frozenset(cores[index::jobs]) for index in range(jobs)]


def start_training(words: Sequence[str], cores: Cores, log: Path) -> subprocess.Popen[bytes]:
    """Starts `capo train` with these arguments and appends its output to `log`.

    The process is in its own session, so Ctrl-C in the terminal does not reach it.
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
        # The interpreter is still starting, so all threads of the run inherit this.
        os.sched_setaffinity(process.pid, cores)
    return process


def last_line(log: Path) -> str:
    """The last line of output of a run."""
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.is_file() else []
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    return one_line(last.removeprefix("capo: "))
