"""The display of a run: one live line in a terminal, plain lines in a file or a pipe."""

import contextlib
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rich.progress
from rich.console import Console
from rich.live import Live
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from capo.callbacks import Callback
from capo.config import Config
from capo.report.format import clock, compact

PLAIN_LINES = 20
"""Progress lines that a run prints into a file or a pipe."""
BAR = 16
"""Width of the live line's bar."""


@contextlib.contextmanager
def live_display(console: Console, transient: bool = False) -> Iterator[Live | None]:
    """A display that is drawn again on request; None outside a terminal."""
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, auto_refresh=False, transient=transient) as live:
        yield live


class Progress:
    """Shows each row of a run as it is logged."""

    def __init__(self, console: Console, config: Config, before: int = 0):
        """`before` counts the generations done earlier."""
        self._console, self._config, self._before = console, config, before
        self._live: Live | None = None
        self._began = time.monotonic()
        self._evaluated, self._looked = math.nan, ""

    @contextlib.contextmanager
    def running(self) -> Iterator["Progress"]:
        """Shows the live line while the block runs."""
        self._began = time.monotonic()
        with live_display(self._console) as self._live:
            yield self

    def show(self, row: dict[str, float]) -> None:
        """Updates the live line; outside a terminal, prints a line each 5% of the run."""
        total = self._config.num_generations
        done = int(row["generation"]) + 1
        parts = self._parts(row, done, total)
        if self._live is not None:
            room = self._console.width - BAR - 1
            grid = Table.grid(padding=(0, 1))
            grid.add_row(ProgressBar(total=total, completed=done, width=BAR), fitting(parts, room))
            self._live.update(grid, refresh=True)
        elif done == total or done * PLAIN_LINES // total > (done - 1) * PLAIN_LINES // total:
            self._console.print("  ".join(parts), highlight=False, soft_wrap=True)

    def _parts(self, row: dict[str, float], done: int, total: int) -> list[str]:
        """What is told, the most important first."""
        spent = time.monotonic() - self._began
        new = done - self._before
        left = spent / new * (total - done)
        score = "–" if math.isnan(row["return"]) else f"{row['return']:.1f}"
        self._look(row)
        self._evaluated = row.get("eval/return", self._evaluated)
        parts = [
            f"{compact(row['steps'])}/{compact(total * self._config.batch_size)} steps",
            f"return {score}",
            *([] if math.isnan(self._evaluated) else [f"evaluated {self._evaluated:.1f}"]),
            f"{clock(left)} left",
            f"{compact(new * self._config.batch_size / spent)} steps/s",
            f"KL {row['kl']:.3g}",
        ]
        parts += [self._looked] if self._looked else []
        return [*parts, "warmup"] if row["warmup"] else parts

    def _look(self, row: dict[str, float]) -> None:
        """Keeps what the last diagnosed update was, and when."""
        alignment = row.get("fisher/alignment", math.nan)
        if math.isnan(alignment):
            return
        self._looked = f"at {compact(row['steps'])}: signal {alignment:.0%} of the KL"
        kept = row.get("consensus/waste_ratio", math.nan)
        if not math.isnan(kept) and not row["warmup"]:
            self._looked += f", consensus removed {1 - kept:.0%} of the waste"


def fitting(parts: Sequence[str], room: int) -> str:
    """As many of the first parts as fit into one line; one at least."""
    lines = ["  ".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((line for line in lines if len(line) <= room), lines[-1])


class LossyOutput:
    """A stream that drops everything after its first error.

    A full disk, a closed pipe or a closed terminal thus ends the display of a run, not the run.
    With `redirect` its file descriptor leads nowhere afterwards, so that no buffered text fails at
    exit.
    """

    def __init__(self, stream: Any, redirect: bool):
        self._stream, self._redirect, self._lost = stream, redirect, False

    def write(self, text: str) -> int:
        """Writes the text, or drops it."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Writes what is buffered, or drops it."""
        self._attempt(self._stream.flush)

    def _attempt(self, call: Callable[[], Any]) -> None:
        if self._lost:
            return
        try:
            call()
        except OSError:
            self._lost = True
            if self._redirect:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Terminal:
    """Reports a run on standard output; without `messages`, only compiling and progress."""

    def __init__(self, messages: bool):
        output: Any = LossyOutput(sys.stdout, redirect=messages)
        self._console = Console(file=output, highlight=False, soft_wrap=True)
        self._messages = messages

    def note(self, text: str) -> None:
        """Prints the text, if messages are on."""
        if not self._messages:
            return
        if self._console.is_terminal and len(text) > self._console.width:
            text = text.replace(" | ", "\n")
        self._console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Prints the text, or issues a `UserWarning` if messages are off."""
        if self._messages:
            self.note(text)
        else:
            warnings.warn(text, stacklevel=2)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """A spinner with the time, in a terminal."""
        if not self._console.is_terminal:
            yield
            return
        columns = SpinnerColumn(), TextColumn("compiling"), TimeElapsedColumn()
        with rich.progress.Progress(*columns, console=self._console, transient=True) as spinner:
            spinner.add_task("")
            yield

    @contextlib.contextmanager
    def progress(self, config: Config, done: int) -> Iterator[Callback]:
        """A live line, or plain lines outside a terminal."""
        with Progress(self._console, config, done).running() as line:
            yield lambda _, info: line.show(info)
