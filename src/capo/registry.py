"""Which tasks there are: the ids of Gymnasium and EnvPool, and modules that register more."""

import difflib
import importlib
import importlib.metadata
import importlib.util
import sys

import gymnasium as gym

from capo.config import UsageError


def choose_backend(env_id: str, backend: str) -> str:
    """`auto` is EnvPool for Gymnasium's own tasks where it is installed, else Gymnasium."""
    installed = importlib.util.find_spec("envpool") is not None
    if backend == "envpool":
        if not installed:
            raise UsageError("--backend envpool needs EnvPool; pip install envpool")
        if env_id not in _envpool_ids():
            raise UsageError(f"EnvPool has no environment {env_id!r}{_nearest(env_id)}")
        return "envpool"
    check_registered(env_id)
    if backend == "auto" and installed and env_id in _envpool_ids():
        entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
        if isinstance(entry, str) and entry.startswith("gymnasium.envs."):
            return "envpool"
    return "gymnasium"


def _envpool_ids() -> list[str]:
    import envpool

    return envpool.list_all_envs()


def split_id(env_id: str) -> tuple[str, str]:
    """The module, empty if there is none, and the id that importing it registers."""
    module, _, name = env_id.rpartition(":")
    return module, name


def import_module_of(env_id: str) -> None:
    """Imports the module of a `module:id`, as `gymnasium.make` would.

    Only for an id that a person wrote, on the command line or in code: importing runs the module.
    """
    module, _ = split_id(env_id)
    if not module:
        return
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{env_id!r} asks for a module {module!r}, which is no name of one")
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{env_id!r} asks for a module that is not there: {error}") from error


def check_registered(env_id: str) -> None:
    """Refuses an id that Gymnasium does not know, with the nearest that it does.

    The module of a `module:id` must have been imported already.
    """
    module, name = split_id(env_id)
    if module and module not in sys.modules:
        raise UsageError(
            f"the task {env_id!r} needs the module {module}, which is not imported because of what "
            f"a file says; if you trust it, name the task yourself: --env {env_id}, or "
            f"capo train {env_id} --resume (in Python: import {module})"
        )
    _register_installed(name)
    try:
        gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        if name in gym.registry:
            raise UsageError(f"environment {env_id!r} cannot be made: {error}") from error
        raise UsageError(f"unknown environment {env_id!r}{_nearest(env_id)}") from error


def _register_installed(env_id: str) -> None:
    """Lets installed packages register their environments, if this one is not known yet.

    They say how in the entry point group `gymnasium.envs`, which Gymnasium itself no longer reads.
    """
    if env_id in gym.registry:
        return
    for point in importlib.metadata.entry_points(group="gymnasium.envs"):
        if point.name in ("__root__", env_id.split("/")[0]):
            point.load()()


def _nearest(env_id: str) -> str:
    names = {name.lower(): name for name in gym.registry}
    close = difflib.get_close_matches(env_id[:100].lower(), names, n=1, cutoff=0.3)
    return f"; did you mean {names[close[0]]}?" if close else ""
