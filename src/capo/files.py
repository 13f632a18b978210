"""Files that are whole at all times (written under another name, then renamed), and strict JSON."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capo.config import UsageError

RUNS = Path("runs")
"""Where runs are written and looked for unless another folder is named."""


def check_writable(folder: Path, advice: str = "") -> None:
    """Refuses a folder that nothing can be written to, or that cannot be made."""
    parent = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not os.access(parent, os.W_OK):
        raise UsageError(f"{parent} cannot be written to{advice}")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the path to an error of the system that does not say where it happened."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file and waits until it is on disk."""
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on disk."""
    if os.name != "posix":  # Elsewhere a folder cannot be opened.
        return
    with naming(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_atomic(path: Path, content: bytes) -> None:
    """Writes to a temporary name beside `path`, then renames."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write_synced(partial, content)
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def put_folder(partial: Path, path: Path) -> None:
    """Gives a folder its name; one that has the name already makes way, and is removed after.

    If that is cut short in the middle, `restore_folders` brings the old one back.
    """
    aside = path.with_name(f".{path.name}.old")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
    partial.rename(path)
    sync_folder(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Removes a folder; however far that gets, nothing half removed keeps the name."""
    partial = path.with_name(f".{path.name}.partial")
    path.rename(partial)
    shutil.rmtree(partial, ignore_errors=True)


def restore_folders(parent: Path) -> None:
    """Ends what `put_folder` and `remove_folder` may have left undone."""
    for aside in parent.glob(".*.old"):
        path = parent / aside.name[1:].removesuffix(".old")
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(path)
    for partial in parent.glob(".*.partial"):
        shutil.rmtree(partial, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, whole or not at all."""
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def parse_json(text: str) -> Any:
    """JSON as the standard has it: a key that comes twice, NaN and Infinity are a ValueError."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key of its JSON comes twice")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
