"""One process at a time writes into a folder."""

import os
from pathlib import Path

from capo.config import UsageError
from capo.files import naming

NAME = ".lock"
_held: set[Path] = set()


class Lock:
    """Holds a folder until `release`, or until the process ends, however it ends.

    A lock of the system on a file in the folder: nothing is left to clear away after a crash, and
    processes that this one starts do not have it. Where the system has none, nothing is locked.
    """

    def __init__(self, folder: Path):
        self._key = folder.resolve()
        if self._key in _held:
            raise UsageError(f"{folder} is in use by this process")
        with naming(folder / NAME):
            self._file = (folder / NAME).open("a+")
        if not _lock(self._file.fileno()):
            self._file.seek(0)
            who = self._file.read().strip() or "another one"
            self._file.close()
            raise UsageError(f"{folder} is in use by process {who}; a run has one writer at a time")
        _held.add(self._key)
        with naming(folder / NAME):
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n")
            self._file.flush()

    def release(self) -> None:
        """Lets others in."""
        if not self._file.closed:
            self._file.close()
            _held.discard(self._key)


def is_held(folder: Path) -> bool:
    """Whether a process that is alive writes into the folder."""
    if folder.resolve() in _held:
        return True
    try:
        with (folder / NAME).open() as file:
            return not _lock(file.fileno(), shared=True)
    except OSError:
        return False


def _lock(handle: int, shared: bool = False) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.lockf(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
