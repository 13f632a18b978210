"""Atomic writes of files and folders (a temporary name, then a rename), and strict JSON."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capo.errors import UsageError

RUNS = Path("runs")
"""Default folder of runs, for writing and for searching."""


def check_writable(folder: Path, advice: str = "") -> None:
    """Raises UsageError if the folder is not writable or cannot be created."""
    parent = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        # The bits of the folder do not tell: root passes them, a read-only file system does not.
        raise UsageError(f"{parent} cannot be written to{advice}") from error


@contextlib.contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Adds the path to an OSError raised inside that names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file and syncs it to disk."""
    with errors_naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Syncs the names in a folder to disk."""
    if os.name != "posix":  # Windows cannot open a folder.
        return
    with errors_naming(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name in the same folder, then renames it to `path`."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write_synced(partial, content)
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def replace_folder(partial: Path, path: Path) -> None:
    """Renames `partial` to `path` and deletes the folder that had this name.

    After an interruption `restore_folders` brings the old folder back.
    """
    aside = path.with_name(f".{path.name}.old")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
    partial.rename(path)
    sync_folder(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Deletes a folder, renamed first: an interruption leaves no incomplete `path`."""
    partial = path.with_name(f".{path.name}.partial")
    path.rename(partial)
    shutil.rmtree(partial, ignore_errors=True)


def restore_folders(parent: Path) -> None:
    """Cleans up after an interrupted `replace_folder` or `remove_folder`."""
    for aside in parent.glob(".*.old"):
        path = parent / aside.name[1:].removesuffix(".old")
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(path)
    for partial in parent.glob(".*.partial"):
        shutil.rmtree(partial, ignore_errors=True)


def check_output(out: Path, page: str, generator: str, begun: bool = False) -> None:
    """Raises unless the folder is new, empty, begun, or has this page of the `generator`."""
    other = "; choose another --out"
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder{other}")
    if out.is_dir() and any(out.iterdir()) and not begun:
        mark = f'<meta name="generator" content="{generator}">'.encode()
        file = out / page
        if not file.is_file() or mark not in file.read_bytes()[:1000]:
            raise UsageError(f"{out} has files that are not of {generator}{other}")
    check_writable(out, other)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON atomically."""
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def parse_json(text: str) -> Any:
    """Standard JSON; duplicate keys, NaN and Infinity raise ValueError."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_reject)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("its JSON has a duplicate key")
    return content


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is not valid in JSON")
