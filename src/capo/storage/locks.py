"""Folder locks: one process at a time writes into a folder."""

import os
from pathlib import Path

from capo.errors import UsageError
from capo.storage.files import errors_naming

NAME = ".lock"
WAIT = 0.2
"""Seconds before a lock counts as taken: `is_held` takes it for a moment."""


class Lock:
    """An exclusive lock on a folder, held until `release` or until the process ends.

    It is a lock of the operating system (`flock` on Unix) on a file in the folder, which names the
    holder. A crash leaves nothing to clean up, forked processes do not inherit it, and the holder
    may open and close the file again.
    """

    def __init__(self, folder: Path):
        import filelock

        file = folder / NAME
        self._lock = filelock.FileLock(
            file, WAIT, thread_local=False, preserve_lock_file=True, on_acquired=_write_pid
        )
        try:
            with errors_naming(file):
                self._lock.acquire()
        except filelock.Timeout:
            raise UsageError(
                f"{folder} is in use by {_holder(file)}; a run has one writer at a time"
            ) from None

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        self._lock.release()


def is_held(folder: Path) -> bool:
    """Whether a live process, this one included, has locked the folder."""
    try:
        with (folder / NAME).open() as file:
            return not _is_free(file.fileno())
    except OSError:
        return False


def _is_free(handle: int) -> bool:
    """Locks the open file for a moment; shared on Unix, so that two of these can be at once."""
    try:
        import fcntl
    except ImportError:
        import filelock

        return filelock.lock_descriptor(handle, blocking=False)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_pid(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())


def _holder(file: Path) -> str:
    try:
        pid = file.read_text().strip()
    except OSError:  # Windows does not let others read a locked file.
        pid = ""
    if pid == str(os.getpid()):
        return "this process"
    return f"process {pid}" if pid else "another process"
