"""Runs side by side until all are done: what fails is reported, and does not stop the others."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from capo.config import UsageError
from capo.interrupts import SIGNALS
from capo.paper.launch import Cores, last_line, start
from capo.paper.selection import Run
from capo.paper.store import Store
from capo.paper.summaries import Summary

POLL = 0.2
"""Seconds between two looks at the processes."""


class Going(NamedTuple):
    """A run that is being trained."""

    run: Run
    process: subprocess.Popen[bytes]
    cores: Cores
    began: float


class State:
    """What has been done so far; the display reads it."""

    def __init__(self, runs: Sequence[Run]):
        self.waiting: list[Run] = list(runs)
        self.going: list[Going] = []
        self.done: dict[str, Summary] = {}
        self.failed: dict[str, str] = {}
        self.spent: dict[str, float] = {}
        """Seconds that each finished run took."""
        self.stopping: int | None = None
        """The signal that came."""

    @property
    def total(self) -> int:
        """All runs that were to be done."""
        return len(self.waiting) + len(self.going) + len(self.done) + len(self.failed)


Watcher = Callable[[State, Run | None], None]
"""Called again and again with the state, and with the run that has just ended, if one has."""


def work_off(store: Store, runs: Sequence[Run], places: Sequence[Cores], watch: Watcher) -> State:
    """Trains what is not done; after a signal, lets what is going save itself, and returns.

    A run that was begun before goes on where it was.
    """
    state, free = State(runs), list(places)
    with _listening(state):
        while state.going or (state.waiting and state.stopping is None):
            while free and state.waiting and state.stopping is None:
                _begin(store, state, free)
            time.sleep(POLL)
            watch(state, None)
            for going in [each for each in state.going if each.process.poll() is not None]:
                state.going.remove(going)
                free.append(going.cores)
                _end(store, state, going)
                watch(state, going.run)
    return state


def _begin(store: Store, state: State, free: list[Cores]) -> None:
    run, cores = state.waiting.pop(0), free.pop(0)
    words = [*run.words, "--run-dir", str(store.folder(run)), "--resume", "auto"]
    process = start(words, cores, store.log(run))
    state.going.append(Going(run, process, cores, time.monotonic()))


def _end(store: Store, state: State, going: Going) -> None:
    run, code = going.run, going.process.returncode
    try:
        found = store.take_in(run) if code == 0 else None
    except UsageError as error:
        found, code = None, 1
        state.failed[run.name] = str(error)
    if found is not None:
        state.done[run.name] = found
        state.spent[run.name] = time.monotonic() - going.began
    elif state.stopping is not None:
        state.waiting.insert(0, run)
    else:
        said = last_line(store.log(run))
        state.failed.setdefault(run.name, f"{said} (exit code {code}; {store.log(run)})")


@contextlib.contextmanager
def _listening(state: State) -> Iterator[None]:
    """The first signal is passed on once, so that runs save themselves; a second ends them."""

    def note(number: int, _: object) -> None:
        first = state.stopping is None
        state.stopping = number
        for going in state.going:
            with contextlib.suppress(ProcessLookupError):
                going.process.send_signal(signal.SIGINT if first else signal.SIGKILL)

    before = {each: signal.signal(each, note) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for going in state.going:
            going.process.kill()


def seconds_left(state: State, expected: Mapping[str, float], at_once: int) -> float:
    """By what is expected of each run, corrected by how the finished ones did."""
    now = time.monotonic()
    left = sum(expected[run.name] for run in state.waiting)
    left += sum(max(0.0, expected[g.run.name] - (now - g.began)) for g in state.going)
    foreseen = sum(expected[name] for name in state.spent)
    return left / at_once * (sum(state.spent.values()) / foreseen if foreseen else 1.0)
