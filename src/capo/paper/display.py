"""What a person sees while many runs go on: one live table, or a line for each run that ends."""

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from capo.format import clock, compact, figure
from capo.paper.schedule import State, seconds_left
from capo.paper.selection import Run
from capo.paper.store import Store
from capo.records import number

TAIL = 8192
"""Bytes at the end of a run's metrics that are sure to hold a whole row."""
PERIOD = 1.0
"""Seconds between two looks at the metrics."""


class Display:
    """Follows a schedule."""

    def __init__(self, console: Console, store: Store, expected: Mapping[str, float], jobs: int):
        self._console, self._store, self._expected, self._jobs = console, store, expected, jobs
        self._live: Live | None = None
        self._drawn = self._began = time.monotonic()

    @contextlib.contextmanager
    def running(self) -> Iterator["Display"]:
        """Keeps the table up while the block runs."""
        self._began = time.monotonic()
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield self

    def __call__(self, state: State, ended: Run | None) -> None:
        """Draws at most once a second; says how each run ended."""
        if ended is not None:
            self._say(state, ended)
        now = time.monotonic()
        if self._live is not None and (ended is not None or now - self._drawn > PERIOD):
            self._drawn = now
            self._live.update(self._table(state), refresh=True)

    def _say(self, state: State, ended: Run) -> None:
        if ended.name in state.done:
            found = state.done[ended.name]
            said = f"return {figure(found.score)}, {clock(found.totals['seconds'])}"
        elif ended.name in state.failed:
            said = f"failed: {state.failed[ended.name]}"
        else:
            said = "stopped, saved"
        finished = len(state.done) + len(state.failed)
        self._console.print(
            f"[{finished}/{state.total}] {ended.name}: {said}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip

    def _table(self, state: State) -> Group:
        grid = Table.grid(padding=(0, 1))
        for going in state.going:
            row = _last_row(self._store.folder(going.run) / "metrics.jsonl")
            steps, total = number(row.get("steps", 0)), going.run.config.total_steps
            found = number(row.get("return"))
            said = "starting" if not row else f"{compact(steps)}/{compact(total)} steps"
            said += "" if math.isnan(found) else f"  return {figure(found)}"
            bar = ProgressBar(total=total, completed=steps, width=20)
            grid.add_row(bar, Text(going.run.name, overflow="ellipsis", no_wrap=True), said)
        return Group(Text(self._summary(state)), grid)

    def _summary(self, state: State) -> str:
        parts = [f"{len(state.done)} of {state.total} runs done"]
        parts += [f"{len(state.failed)} failed"] if state.failed else []
        parts += [f"{clock(time.monotonic() - self._began)} passed"]
        if state.stopping is not None:
            parts += ["stopping after these generations; once more to stop at once"]
        elif self._expected:
            left = seconds_left(state, self._expected, self._jobs)
            parts += [f"about {clock(left)} left"]
        return "  ".join(parts)


def _last_row(file: Path) -> dict:
    """The last whole row of a file that is being written."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - TAIL))
            lines = opened.read().split(b"\n")
        return json.loads(lines[-2]) if len(lines) > 1 else {}
    except (OSError, ValueError):
        return {}
