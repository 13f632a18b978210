"""Signals: SIGINT, SIGTERM and SIGHUP end a run after the current generation."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

MESSAGE = b"\nstopping after this generation; once more to stop at once\n"


def stopping_signals() -> list[signal.Signals]:
    """SIGINT, SIGTERM and, where it exists and is not ignored as under `nohup`, SIGHUP."""
    found = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        found.append(hangup)
    return found


class Interrupt:
    """A callback that ends the run after the generation in which a signal arrived."""

    def __init__(self) -> None:
        self.number: int | None = None
        """Number of the signal, once it arrived."""

    def __call__(self, *_: Any) -> bool:
        return self.number is None

    @contextlib.contextmanager
    def listening(self) -> Iterator["Interrupt"]:
        """Handles the first signal; a second one ends the process at once."""
        signals = stopping_signals()

        def note(number: int, _: Any) -> None:
            self.number = number
            for each in signals:
                signal.signal(each, signal.SIG_DFL)
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, MESSAGE)

        before = {each: signal.signal(each, note) for each in signals}
        try:
            yield self
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
