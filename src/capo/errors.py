"""Every exception of the package, and the names of settings in messages.

A message calls a setting what the caller calls it: `num_envs` in Python, `--num-envs` on the
command line, which asks for it by `speaking_flags`.
"""

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar

FLAGS = {"total_steps": "-n", "wrappers": "--wrapper"}
"""Flags that are not spelled as their settings."""
_flags: ContextVar[bool] = ContextVar("flags", default=False)


class UsageError(ValueError):
    """Wrong input. The text is one line that says what was wrong and what would be right."""


class FileError(UsageError):
    """A file that is refused; the text names it."""


class NotNamedError(UsageError):
    """Code that only a file names: a person has to name it before it is used."""


class FinishedError(UsageError):
    """A run that is resumed has no generation left."""


class EnvError(RuntimeError):
    """An environment misbehaved; the text names its index and the step."""


class EnvTimeoutError(Exception):
    """An environment took too long. No OSError: too many places expect and swallow those."""


class NonFiniteError(RuntimeError):
    """Updates were not finite several times in a row; the text says what, when and what to try."""


@contextlib.contextmanager
def speaking_flags() -> Iterator[None]:
    """Within the block, messages name settings as flags."""
    token = _flags.set(True)
    try:
        yield
    finally:
        _flags.reset(token)


def name_of(setting: str, value: object = None) -> str:
    """`num_envs` or, on the command line, `--num-envs`; with a value `num_envs=8`, `--num-envs 8`.

    A switch that is on is `override=True` or `--override`.
    """
    if not _flags.get():
        return setting if value is None else f"{setting}={value!r}"
    return flag(setting) if value is None or value is True else f"{flag(setting)} {value}"


def flag(setting: str) -> str:
    """The command-line spelling of a setting: `num_envs` is `--num-envs`."""
    return FLAGS.get(setting) or "--" + setting.replace("_", "-")


def install_hint(extra: str) -> str:
    """The command that installs an extra, in a checkout of capo."""
    return f"pip install -e '.[{extra}]' in the folder of capo"


def check_least(setting: str, value: float, least: float = 1) -> None:
    """Refuses a number that is not finite or below `least`."""
    if not least <= value < math.inf:
        raise UsageError(f"{name_of(setting)} is {value}; it must be at least {least}")
