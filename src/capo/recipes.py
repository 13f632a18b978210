"""How many processes are to step a task, and what another process needs in order to make it."""

import dataclasses
import json
import os
import sys
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from capo.config import UsageError
from capo.envs import available_cores
from capo.registry import split_id

Recipe = dict[str, Any]
"""The specification of a task and the arguments it is made with, as JSON."""


def workers_for(
    env_id: str, workers: int | None, num_envs: int, kwargs: dict[str, Any] | None = None
) -> int:
    """How many processes are to help this one with a Gymnasium task; None: as many as it pays for.

    That is one for each other core if the task is one of Gymnasium's own in MuJoCo, else none.
    """
    posix = os.name == "posix" and bool(sys.executable)
    if workers and not posix:
        raise UsageError("--workers needs a system that can share memory; leave it out")
    if workers is None:
        entry = gym.spec(split_id(env_id)[1]).entry_point
        heavy = isinstance(entry, str) and entry.startswith("gymnasium.envs.mujoco")
        possible = heavy and posix and _is_portable(env_id, kwargs or {})
        workers = available_cores() - 1 if possible else 0
    return min(workers, num_envs - 1)


def recipe_of(env_id: str, kwargs: dict[str, Any]) -> Recipe:
    """What another process needs in order to make a task: its specification and arguments, as JSON.

    Only for what says everything about the task: an entry point that can be imported, and values
    that come back from JSON as they were.
    """
    try:
        spec = gym.spec(split_id(env_id)[1])
        entry, wrappers = _importable(spec.entry_point), tuple(spec.additional_wrappers)
        changes = {"entry_point": entry, "additional_wrappers": wrappers}
        plain = dataclasses.replace(spec, vector_entry_point=None, **changes)
        text, again = plain.to_json(), json.loads(json.dumps(kwargs))
        if EnvSpec.from_json(text) != plain or again != kwargs:
            raise ValueError("its arguments are no JSON")
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{env_id} cannot be made in another process ({error}); "
            "without --workers it is stepped in this one"
        ) from error
    return {"spec": text, "kwargs": kwargs}


def _is_portable(env_id: str, kwargs: dict[str, Any]) -> bool:
    try:
        recipe_of(env_id, kwargs)
    except UsageError:
        return False
    return True


def _importable(entry: Any) -> str:
    """An entry point as `module:name`; one in a script cannot be imported from elsewhere."""
    path = entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"
    module, _, name = path.partition(":")
    if module == "__main__":
        raise ValueError("it is part of the script")
    if entry is not path and getattr(sys.modules.get(module), name, None) is not entry:
        raise ValueError(f"{path} is not to be found by its name")
    return path
