"""Ending a run from outside: by Ctrl-C, or by whoever takes the machine away."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAID = b"\nstopping after this generation; once more to stop at once\n"


class Interrupt:
    """A callback that ends the run after the generation in which a signal came."""

    def __init__(self) -> None:
        self.number: int | None = None
        """Of the signal that came."""

    def __call__(self, *_: Any) -> bool:
        return self.number is None

    @contextlib.contextmanager
    def listening(self) -> Iterator["Interrupt"]:
        """Takes the first SIGINT or SIGTERM for itself; a second one ends the process at once."""

        def note(number: int, _: Any) -> None:
            self.number = number
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            os.write(2, SAID)

        before = {each: signal.signal(each, note) for each in SIGNALS}
        try:
            yield self
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
