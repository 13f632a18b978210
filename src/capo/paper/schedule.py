"""Trains many runs, several at a time; a failed run does not stop the others."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from capo.errors import UsageError
from capo.paper.launch import Cores, last_line, start_training
from capo.paper.run_keys import RunKey
from capo.paper.selection import Run
from capo.paper.store import Store
from capo.paper.summaries import Summary
from capo.runs.interrupts import stopping_signals

POLL_SECONDS = 0.2
"""Interval between checks of the processes."""


class ActiveRun(NamedTuple):
    """A run that is being trained."""

    run: Run
    process: subprocess.Popen[bytes]
    cores: Cores
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
    store: Store, runs: Sequence[Run], core_sets: Sequence[Cores], observe: Observer
) -> ScheduleState:
    """Trains all runs, resuming those that were interrupted before.

    After a signal no run is started; the active runs save their state and end.
    """
    state, free = ScheduleState(runs), list(core_sets)
    with _forward_signals(state):
        while state.active or (state.waiting and state.signal is None):
            while free and state.waiting and state.signal is None:
                _start_next(store, state, free)
            time.sleep(POLL_SECONDS)
            observe(state, None)
            for ended in [each for each in state.active if each.process.poll() is not None]:
                state.active.remove(ended)
                free.append(ended.cores)
                _finish(store, state, ended)
                observe(state, ended.run)
    return state


def _start_next(store: Store, state: ScheduleState, free: list[Cores]) -> None:
    run, cores = state.waiting.pop(0), free.pop(0)
    words = [*run.words, "--run-dir", str(store.folder(run)), "--resume", "auto"]
    process = start_training(words, cores, store.log(run))
    state.active.append(ActiveRun(run, process, cores, time.monotonic()))


def _finish(store: Store, state: ScheduleState, ended: ActiveRun) -> None:
    run, code = ended.run, ended.process.returncode
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
        reason = f"{last_line(store.log(run))} (exit code {code}; {store.log(run)})"
        state.failed.setdefault(run.name, reason)


@contextlib.contextmanager
def _forward_signals(state: ScheduleState) -> Iterator[None]:
    """Sends SIGINT to the active runs at the first signal, so that they save; kills at the second.

    All runs that are active when the block ends are killed.
    """

    def forward(number: int, _: object) -> None:
        first = state.signal is None
        state.signal = number
        for run in state.active:
            with contextlib.suppress(ProcessLookupError):
                run.process.send_signal(signal.SIGINT if first else signal.SIGKILL)

    before = {each: signal.signal(each, forward) for each in stopping_signals()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for run in state.active:
            run.process.kill()


def seconds_left(state: ScheduleState, expected: Mapping[str, float], at_once: int) -> float:
    """Expected time of the remaining runs, scaled by actual / expected of the finished ones."""
    now = time.monotonic()
    left = sum(expected[run.name] for run in state.waiting)
    left += sum(max(0.0, expected[a.run.name] - (now - a.began)) for a in state.active)
    planned = sum(expected[name] for name in state.durations)
    return left / at_once * (sum(state.durations.values()) / planned if planned else 1.0)
