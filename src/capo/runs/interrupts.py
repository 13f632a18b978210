"""Signals: SIGINT, SIGTERM and SIGHUP end a run after the current generation."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

MESSAGE = b"\nstopping after this generation; once more to stop at once\n"


def stopping_signals() -> list[signal.Signals]:
    """SIGINT, SIGTERM and, where it exists and is not ignored as under `nohup`, SIGHUP."""
    signals = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signals.append(hangup)
    return signals


@contextlib.contextmanager
def handled_by(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """The handler takes the stopping signals; afterwards those before have them again."""
    before = {each: signal.signal(each, handler) for each in stopping_signals()}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


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

        def note(number: int, _: Any) -> None:
            self.number = number
            for each in stopping_signals():
                signal.signal(each, signal.SIG_DFL)
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, MESSAGE)

        with handled_by(note):
            yield self
