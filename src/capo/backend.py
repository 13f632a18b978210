"""JAX as capo wants it: a device for each core, and compiled programs kept between runs."""

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

from capo.envs import available_cores

SWITCH = "CAPO_CACHE"
"""The variable that names another folder for compiled programs, or `off`."""
MOST_BYTES = 256 * 2**20
DAMAGED = "Error reading persistent compilation cache entry"


def prepare_backend() -> None:
    """Splits the host CPU into a JAX device for each core, for experts, and one for the critic.

    The critic's has no core of its own: the system shares the cores out among what runs. Leaves a
    number that the user chose alone. Only possible before JAX starts its backend; afterwards the
    devices there are get used.
    """
    if jax.config.jax_num_cpu_devices < 1:  # pyright: ignore[reportAttributeAccessIssue]
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", available_cores() + 1)
    _keep_compiled()


def cache_folder() -> Path | None:
    """Where compiled programs are kept: $CAPO_CACHE or the user's folder; None if switched off.

    Programs are for one kind of processor, so each has a folder of its own.
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
    """The architecture and a digest of what the processor can do, as far as the system says."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else [platform.processor()]
    able = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])
    return f"{platform.machine()}-{hashlib.sha256(able.encode()).hexdigest()[:12]}"


def _keep_compiled() -> None:
    """Has JAX keep what it compiles, unless the user decided about that or it cannot be written."""
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
        # A start compiles dozens of small programs: whatever takes longer than reading it is kept.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)


def _prune(folder: Path) -> None:
    """Removes the oldest half of the programs once all together take too much room."""
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
    """Within, a kept program that cannot be read is compiled again, and all of them are dropped.

    A process may have been killed while it wrote one, and JAX would stumble over it each time.
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
