"""Progress of many runs: a live table in a terminal, else a line for each run that ends."""

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

from capo.report.format import clock, compact, rounded
from capo.runs.progress import live_display
from capo.runs.reading import number
from capo.sweeps.schedule import ScheduleState, seconds_left
from capo.sweeps.selection import Run

TAIL = 8192
"""Bytes at the end of metrics.jsonl that are sure to contain a complete row."""
REFRESH_SECONDS = 1.0
"""Interval between updates of the table."""


class Monitor:
    """Observer of a schedule that prints its progress."""

    def __init__(
        self,
        console: Console,
        expected: Mapping[str, float],
        places: int,
        measured: bool = True,
    ):
        """`expected` are the seconds of each run, or without `measured` numbers in proportion."""
        self._console, self._expected, self._places = console, expected, places
        self._measured = measured
        self._live: Live | None = None
        self._drawn = self._began = time.monotonic()

    @contextlib.contextmanager
    def running(self) -> Iterator["Monitor"]:
        """Shows the table during the block."""
        self._began = time.monotonic()
        with live_display(self._console, transient=True) as self._live:
            yield self

    def __call__(self, state: ScheduleState, ended: Run | None) -> None:
        """Updates the table at most once a second, and prints how each run ended."""
        if ended is not None:
            self._print_result(state, ended)
        now = time.monotonic()
        if self._live is not None and (ended is not None or now - self._drawn > REFRESH_SECONDS):
            self._drawn = now
            self._live.update(self._table(state), refresh=True)

    def _print_result(self, state: ScheduleState, ended: Run) -> None:
        if ended.key in state.done:
            run = state.done[ended.key]
            result = f"return {rounded(run.score)}, {clock(run.totals['seconds'])}"
        elif ended.name in state.failed:
            result = f"failed: {state.failed[ended.name]}"
        else:
            result = "stopped, saved"
        finished = len(state.done) + len(state.failed)
        self._console.print(
            f"[{finished}/{state.total}] {ended.name}: {result}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip

    def _table(self, state: ScheduleState) -> Group:
        grid = Table.grid(padding=(0, 1))
        for run, job, _, _ in state.active:
            row = _last_row(job.folder / "metrics.jsonl")
            steps, total = number(row.get("steps", 0)), run.config.total_steps
            score = number(row.get("return"))
            status = "starting" if not row else f"{compact(steps)}/{compact(total)} steps"
            status += "" if math.isnan(score) else f"  return {rounded(score)}"
            bar = ProgressBar(total=total, completed=steps, width=20)
            grid.add_row(bar, Text(run.name, overflow="ellipsis", no_wrap=True), status)
        return Group(Text(self._summary(state)), grid)

    def _summary(self, state: ScheduleState) -> str:
        parts = [f"{len(state.done)} of {state.total} runs done"]
        parts += [f"{len(state.failed)} failed"] if state.failed else []
        parts += [f"{clock(time.monotonic() - self._began)} passed"]
        if state.signal is not None:
            parts += ["stopping after the current generations; press Ctrl-C again to stop at once"]
        elif self._expected and (self._measured or state.durations):
            left = seconds_left(state, self._expected, self._places)
            parts += [f"about {clock(left)} left"]
        return "  ".join(parts)


def _last_row(file: Path) -> dict:
    """The last complete row of a metrics.jsonl that is being written; empty if there is none."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - TAIL))
            lines = opened.read().split(b"\n")
        return json.loads(lines[-2]) if len(lines) > 1 else {}
    except (OSError, ValueError):
        return {}
