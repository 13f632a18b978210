"""What a person sees while a run goes on: one live line, or plain lines where nobody watches."""

import contextlib
import math
import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from capo.callbacks import Callback
from capo.config import Config
from capo.envs import VectorEnv
from capo.format import clock, compact
from capo.train import compile_generation

PLAIN_LINES = 20
"""How many progress lines a run prints into a file or a pipe."""


class Progress:
    """Shows the rows of a run as they come."""

    def __init__(self, console: Console, config: Config, before: int = 0):
        """`before` is how many generations are done already."""
        self._console, self._config, self._before = console, config, before
        self._live: Live | None = None
        self._began = time.monotonic()
        self._alignment = math.nan

    @contextlib.contextmanager
    def running(self) -> Iterator["Progress"]:
        """Keeps the live line up while the block runs."""
        self._began = time.monotonic()
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield self

    def show(self, row: dict[str, float]) -> None:
        """Updates the live line; without a terminal, prints every twentieth of the way."""
        total = self._config.generations
        done = int(row["generation"]) + 1
        text = self._text(row, done, total)
        if self._live is not None:
            grid = Table.grid(padding=(0, 1))
            grid.add_row(ProgressBar(total=total, completed=done, width=24), text)
            self._live.update(grid, refresh=True)
        elif done == total or done * PLAIN_LINES // total > (done - 1) * PLAIN_LINES // total:
            self._console.print(text, highlight=False, soft_wrap=True)

    def _text(self, row: dict[str, float], done: int, total: int) -> str:
        spent = time.monotonic() - self._began
        new = done - self._before
        left = spent / new * (total - done)
        found = "–" if math.isnan(row["return"]) else f"{row['return']:.1f}"
        self._alignment = row.get("fisher/alignment", self._alignment)
        parts = [
            f"{compact(row['steps'])}/{compact(total * self._config.batch_size)} steps",
            f"return {found}",
            f"{compact(new * self._config.batch_size / spent)} steps/s",
            f"{clock(left)} left",
            f"KL {row['kl']:.3g}",
        ]
        if not math.isnan(self._alignment):
            parts.append(f"signal {self._alignment:.0%} of it")
        return "  ".join([*parts, "warmup"] if row["warmup"] else parts)


@contextlib.contextmanager
def shown(config: Config, env: VectorEnv, before: int) -> Iterator[Callback]:
    """The live line, as a callback; compiles first, so that its clock measures learning."""
    console = Console()
    with console.status("compiling"):
        compile_generation(config, env.observation_space, env.action_space)
    with Progress(console, config, before).running() as progress:
        yield lambda _, info: progress.show(info)
