"""Provenance of a run: command, commit, package versions, machine."""

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capo.core.devices import available_cores

PACKAGES = ("capo-rl", "jax", "gymnasium", "mujoco", "envpool")
"""The packages that a run's numbers depend on."""


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str | None]:
    """Installed versions by package; None for a package that is not installed."""
    installed: dict[str, str | None] = {}
    for name in packages:
        try:
            installed[name.removesuffix("-rl")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name.removesuffix("-rl")] = None
    return installed


def command() -> str:
    """The command line of this process, with `capo` or the script's name as the program."""
    name = Path(sys.argv[0]).name
    program = "capo" if name in ("capo", "__main__.py") else name or "python"
    return shlex.join([program, *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """Operating system, Python, usable cores and JAX devices."""
    import jax

    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": available_cores(),
        "devices": [str(device) for device in jax.devices()],
    }


def commit() -> str | None:
    """The Git commit of this source tree; None outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
