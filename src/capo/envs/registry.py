"""Ids of registered tasks, and imports of the modules that register them."""

import contextlib
import difflib
import importlib
import importlib.metadata
import sys

import gymnasium as gym

from capo.errors import UsageError

ATARI_VERSION = "-v5"
"""End of the ids of Atari games, as ale-py and EnvPool have them."""


def split_id(env_id: str) -> tuple[str, str]:
    """Splits `module:id` into module and id; the module of a plain id is empty."""
    module, _, name = env_id.rpartition(":")
    return module, name


def import_module_of(env_id: str) -> None:
    """Imports the module of a `module:id`, as `gymnasium.make` does.

    Importing runs the module, so this is only for ids from the user (the command line, Python
    code), never for ids read from a file.
    """
    module, _ = split_id(env_id)
    if not module:
        return
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{env_id!r} is not module:id: {module!r} is not a module name")
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"the module of {env_id!r} cannot be imported: {error}") from error


def check_registered(env_id: str) -> None:
    """Raises UsageError if Gymnasium has no such id; the message names the nearest one.

    The module of a `module:id` must already be imported.
    """
    module, name = split_id(env_id)
    if module and module not in sys.modules:
        raise UsageError(
            f"the task {env_id!r} needs the module {module}; the name comes from a file, so the "
            f"module is not imported; if you trust it, name the task yourself: --env {env_id}, or "
            f"capo train {env_id} --resume (in Python: import {module})"
        )
    try:
        gym.spec(registered_name(env_id))
    except (gym.error.Error, ImportError) as error:
        if name in gym.registry:
            raise UsageError(f"environment {env_id!r} cannot be made: {error}") from error
        raise UsageError(f"unknown environment {env_id!r}{suggest_id(env_id)}") from error


def registered_name(env_id: str) -> str:
    """The id in Gymnasium's registry: without a module, and Pong-v5 is ALE/Pong-v5."""
    name = split_id(env_id)[1]
    _register_entry_points(name)
    if name not in gym.registry and name.endswith(ATARI_VERSION):
        with contextlib.suppress(ImportError):
            import ale_py

            gym.register_envs(ale_py)
        if (long := f"ALE/{name.removeprefix('ALE/')}") in gym.registry:
            return long
    return name


def _register_entry_points(env_id: str) -> None:
    """Lets installed packages register their environments, unless this id is registered.

    They declare that in the entry point group `gymnasium.envs`, which Gymnasium no longer reads.
    """
    if env_id in gym.registry:
        return
    for point in importlib.metadata.entry_points(group="gymnasium.envs"):
        if point.name in ("__root__", env_id.split("/")[0]):
            point.load()()


def suggest_id(env_id: str) -> str:
    """The end of an error message: suggests the nearest registered id, or is empty."""
    names = {name.lower(): name for name in gym.registry}
    close = difflib.get_close_matches(env_id[:100].lower(), names, n=1, cutoff=0.3)
    return f"; did you mean {names[close[0]]}?" if close else ""
