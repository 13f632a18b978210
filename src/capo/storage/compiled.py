"""The cache of compiled programs."""

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax

from capo.core.devices import split_cpu

SWITCH = "CAPO_CACHE"
"""The variable that names another folder for compiled programs, or `off`."""
MOST_BYTES = 256 * 2**20
DAMAGED = "Error reading persistent compilation cache entry"


def prepare_jax() -> None:
    """Splits the CPU into devices, and caches compiled programs on disk."""
    split_cpu()
    _keep_compiled()


def cache_folder() -> Path | None:
    """Folder of the cache: $CAPO_CACHE or the user's cache folder; None if switched off.

    Each kind of processor has a subfolder.
    """
    said = os.environ.get(SWITCH)
    if said is not None and said.lower() in ("", "0", "off", "no", "false"):
        return None
    try:
        folder = Path(said).expanduser() if said else _users_folder() / "capo"
    except RuntimeError:  # there is no home
        return None
    return folder / "xla" / _processor()


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    named = os.environ.get(variable, "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


def _processor() -> str:
    """The architecture and a digest of the processor's features."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else [platform.processor()]
    able = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])
    return f"{platform.machine()}-{hashlib.sha256(able.encode()).hexdigest()[:12]}"


def _keep_compiled() -> None:
    """Turns on JAX's cache, unless the user configured it or the folder is not writable."""
    folder = cache_folder()
    if folder is None or jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _prune(folder)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        # A start compiles dozens of small programs: cache those that are slower than a read.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)


def _prune(folder: Path) -> None:
    """Removes the oldest programs, down to half of the limit, once the cache exceeds it."""
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    sizes = [path.stat().st_size for path in files]
    left = sum(sizes)
    if left <= MOST_BYTES:
        return
    for path, size in zip(files, sizes, strict=True):
        if left <= MOST_BYTES // 2:
            return
        path.unlink(missing_ok=True)
        left -= size


@contextlib.contextmanager
def mended_cache() -> Iterator[None]:
    """Deletes the cache after the block if a cached program could not be read.

    A process that is killed while writing leaves a damaged file, which JAX reports at every start.
    """
    with warnings.catch_warnings(record=True) as seen:
        yield
    told = [warning for warning in seen if not str(warning.message).startswith(DAMAGED)]
    for warning in told:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    folder = cache_folder()
    if len(told) < len(seen) and folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
