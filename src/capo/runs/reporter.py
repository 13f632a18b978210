"""The messages and the progress of a run, without saying where they are shown."""

import contextlib
import warnings
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from capo.callbacks import Callback
from capo.config import Config


@runtime_checkable
class Reporter(Protocol):
    """Receives what a session has to say. `runs.progress.Terminal` prints it."""

    def note(self, text: str) -> None:
        """A fact about the run, such as its sizes."""
        ...

    def warn(self, text: str) -> None:
        """A reason why the run may differ from the one asked for."""
        ...

    def compiling(self) -> AbstractContextManager[Any]:
        """A context in which the session compiles."""
        ...

    def progress(self, config: Config, done: int) -> AbstractContextManager[Callback]:
        """A callback that shows each generation; `done` generations came before the first."""
        ...


class Silent:
    """Shows nothing. Warnings are Python warnings."""

    def note(self, text: str) -> None:
        """Ignores the text."""

    def warn(self, text: str) -> None:
        """Issues a `UserWarning`."""
        warnings.warn(text, stacklevel=2)

    def compiling(self) -> AbstractContextManager[Any]:
        """An empty context."""
        return contextlib.nullcontext()

    def progress(self, config: Config, done: int) -> AbstractContextManager[Callback]:
        """A callback that does nothing."""
        return contextlib.nullcontext(lambda _, info: None)
