"""Launchers: where jobs are trained. A launcher submits a job and gives a handle to it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from capo.core.devices import available_cores
from capo.errors import UsageError, name_of
from capo.sweeps.jobs import Job

Cores = frozenset[int]
"""Cores that a run may use; empty where the system cannot pin processes."""


@runtime_checkable
class Handle(Protocol):
    """A job that was submitted."""

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        ...

    def stop(self, now: bool = False) -> None:
        """Lets the run save its state and end; `now` ends it at once."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """Trains some jobs at a time."""

    places: int
    """Jobs at a time."""

    def submit(self, job: Job) -> Handle:
        """Starts a job; there must be a free place."""
        ...


class Local:
    """Processes on this machine, each pinned to cores of its own."""

    def __init__(self, jobs: int | None = None):
        """Divides the cores evenly among `jobs` processes; None: one core each.

        Two runs with one core each finish sooner than two runs in sequence with both cores, because
        the serial parts of a run leave a core idle.
        """
        self.core_sets = core_sets(jobs)
        self.places = len(self.core_sets)
        self._used: dict[Cores, LocalProcess] = {}

    def submit(self, job: Job) -> "LocalProcess":
        """Starts a process in a session of its own, so Ctrl-C in the terminal does not reach it."""
        busy = [cores for cores, each in self._used.items() if each.poll() is None]
        cores = next(each for each in self.core_sets if each not in busy or not each)
        words = [sys.executable, "-m", "capo", *job.written()]
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with contextlib.suppress(OSError):
            # On Linux a session has its own share of the cores, which `nice` alone does not lower.
            Path(f"/proc/{process.pid}/autogroup").write_text(str(os.nice(0)))
        if cores:
            # The interpreter is still starting, so all threads of the run inherit this.
            os.sched_setaffinity(process.pid, cores)
        self._used[cores] = LocalProcess(process)
        return self._used[cores]


class LocalProcess:
    """A process of `Local`."""

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self._process = process

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def stop(self, now: bool = False) -> None:
        """SIGINT, at which a run saves its state and ends, or SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL if now else signal.SIGINT)


def core_sets(jobs: int | None) -> list[Cores]:
    """The cores of this process divided evenly; None: one core in each set."""
    count = available_cores()
    jobs = jobs or count
    if jobs > count:
        raise UsageError(f"{name_of('jobs')} is {jobs}; this process has {count} cores")
    if not hasattr(os, "sched_getaffinity"):
        return [frozenset()] * jobs
    cores = sorted(os.sched_getaffinity(0))
    return [frozenset(cores[index::jobs]) for index in range(jobs)]
