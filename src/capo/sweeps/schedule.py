"""Trains many runs, as many at a time as the launcher has places; a failure stops no other run."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from capo.errors import UsageError
from capo.runs.interrupts import handled_by
from capo.sweeps.jobs import Job
from capo.sweeps.keys import RunKey
from capo.sweeps.launchers import Handle, Launcher
from capo.sweeps.selection import Run
from capo.sweeps.summaries import Summary

POLL_SECONDS = 0.2
"""Interval between checks of the runs."""


@runtime_checkable
class Runs(Protocol):
    """Where runs are trained, and what is known of the finished ones."""

    def job(self, run: Run) -> Job:
        """The run as a launcher gets it."""
        ...

    def add_summary(self, run: Run) -> Summary | None:
        """The summary of a finished run; None if it is not finished."""
        ...


class ActiveRun(NamedTuple):
    """A run that is being trained."""

    run: Run
    job: Job
    handle: Handle
    began: float


class ScheduleState:
    """Runs by their state."""

    def __init__(self, runs: Sequence[Run]):
        self.waiting: list[Run] = list(runs)
        self.active: list[ActiveRun] = []
        self.done: dict[RunKey, Summary] = {}
        self.failed: dict[str, str] = {}
        """Reasons by the names of the runs."""
        self.durations: dict[str, float] = {}
        """Seconds of the finished runs by their names."""
        self.signal: int | None = None
        """The last signal received."""

    @property
    def total(self) -> int:
        """Number of all runs."""
        return len(self.waiting) + len(self.active) + len(self.done) + len(self.failed)


Observer = Callable[[ScheduleState, Run | None], None]
"""Called repeatedly with the state, and with the run that has just ended or None."""


def train_all(
    store: Runs, runs: Sequence[Run], launcher: Launcher, observe: Observer
) -> ScheduleState:
    """Trains all runs, resuming those that were interrupted before.

    After a signal no run is started; the active runs save their state and end.
    """
    state = ScheduleState(runs)
    with _forward_signals(state):
        while state.active or (state.waiting and state.signal is None):
            while len(state.active) < launcher.places and state.waiting and state.signal is None:
                _start_next(store, state, launcher)
            time.sleep(POLL_SECONDS)
            observe(state, None)
            codes = [(each, each.handle.poll()) for each in state.active]
            for ended, code in codes:
                if code is not None:
                    state.active.remove(ended)
                    _finish(store, state, ended, code)
                    observe(state, ended.run)
    return state


def _start_next(store: Runs, state: ScheduleState, launcher: Launcher) -> None:
    run = state.waiting.pop(0)
    job = store.job(run)
    state.active.append(ActiveRun(run, job, launcher.submit(job), time.monotonic()))


def _finish(store: Runs, state: ScheduleState, ended: ActiveRun, code: int) -> None:
    run = ended.run
    try:
        summary = store.add_summary(run) if code == 0 else None
    except UsageError as error:
        summary, code = None, 1
        state.failed[run.name] = str(error)
    if summary is not None:
        state.done[run.key] = summary
        state.durations[run.name] = time.monotonic() - ended.began
    elif state.signal is not None:
        state.waiting.insert(0, run)
    else:
        reason = f"{ended.job.last_line()} (exit code {code}; {ended.job.log})"
        state.failed.setdefault(run.name, reason)


@contextlib.contextmanager
def _forward_signals(state: ScheduleState) -> Iterator[None]:
    """Lets the active runs save and end at the first signal, and ends them at the second.

    All runs that are active when the block ends are ended at once.
    """

    def forward(number: int, _: Any) -> None:
        first = state.signal is None
        state.signal = number
        for each in state.active:
            each.handle.stop(now=not first)

    with handled_by(forward):
        try:
            yield
        finally:
            for each in state.active:
                each.handle.stop(now=True)


def seconds_left(state: ScheduleState, expected: Mapping[str, float], at_once: int) -> float:
    """Expected time of the remaining runs, scaled by actual / expected of the finished ones."""
    now = time.monotonic()
    left = sum(expected[run.name] for run in state.waiting)
    left += sum(max(0.0, expected[a.run.name] - (now - a.began)) for a in state.active)
    planned = sum(expected[name] for name in state.durations)
    return left / at_once * (sum(state.durations.values()) / planned if planned else 1.0)
