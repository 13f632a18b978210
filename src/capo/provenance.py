"""Where a run's numbers come from: the program, the packages, the machine."""

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capo.envs import available_cores

PACKAGES = ("capo-rl", "jax", "gymnasium", "mujoco", "envpool")


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str | None]:
    """Installed versions of what decides a run's numbers; None for what is not installed."""
    found: dict[str, str | None] = {}
    for name in packages:
        try:
            found[name.removesuffix("-rl")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name.removesuffix("-rl")] = None
    return found


def command() -> str:
    """The line that started this process: capo for its own command line, else the script."""
    name = Path(sys.argv[0]).name
    program = "capo" if name in ("capo", "__main__.py") else name or "python"
    return shlex.join([program, *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """The system, its cores, and the devices that JAX computes on."""
    import jax

    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": available_cores(),
        "devices": [str(device) for device in jax.devices()],
    }


def commit() -> str | None:
    """The commit of this source tree, if it is a checkout."""
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
