"""The number of worker processes of a task, and the recipe by which a worker makes it."""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from capo.core.devices import available_cores
from capo.envs.registry import registered_name
from capo.errors import UsageError, name_of

Recipe = dict[str, Any]
"""The specification of a task, the arguments of `gym.make`, and wrappers, as JSON."""


def workers_for(
    env_id: str,
    workers: int | None,
    num_envs: int,
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    wrappers: Sequence[str] = (),
) -> int:
    """Number of worker processes for a Gymnasium task, besides this process.

    None: as many as make it faster. That is one for each other core if the task is one of
    Gymnasium's own MuJoCo tasks, else 0.
    """
    posix = os.name == "posix" and bool(sys.executable)
    if workers and not posix:
        raise UsageError(f"{name_of('workers')} needs a POSIX system; leave it out")
    if workers is None:
        entry = gym.spec(registered_name(env_id)).entry_point
        heavy = isinstance(entry, str) and entry.startswith("gymnasium.envs.mujoco")
        possible = heavy and posix and _is_portable(env_id, kwargs, wrappers)
        workers = available_cores() - 1 if possible else 0
    return min(workers, num_envs - 1)


def recipe_of(
    env_id: str, kwargs: Mapping[str, Any] = MappingProxyType({}), wrappers: Sequence[str] = ()
) -> Recipe:
    """Serialises a task's specification, arguments and wrappers, for another process to make it.

    Raises UsageError unless that describes the task completely: the entry point must be importable,
    and the arguments must survive a round trip through JSON.
    """
    try:
        spec = gym.spec(registered_name(env_id))
        entry, added = _importable(spec.entry_point), tuple(spec.additional_wrappers)
        changes = {"entry_point": entry, "additional_wrappers": added}
        plain = dataclasses.replace(spec, vector_entry_point=None, **changes)
        text, given = plain.to_json(), dict(kwargs)
        if EnvSpec.from_json(text) != plain or json.loads(json.dumps(given)) != given:
            raise ValueError("its arguments are not JSON")
        if script := next((each for each in wrappers if each.startswith("__main__:")), None):
            raise ValueError(f"{script} is defined in the script")
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{env_id} cannot be made in another process ({error}); "
            f"without {name_of('workers')} it runs in the main process"
        ) from error
    return {"spec": text, "kwargs": given, "wrappers": list(wrappers)}


def _is_portable(env_id: str, kwargs: Mapping[str, Any], wrappers: Sequence[str]) -> bool:
    try:
        recipe_of(env_id, kwargs, wrappers)
    except UsageError:
        return False
    return True


def _importable(entry: Any) -> str:
    """The entry point as `module:name`; raises ValueError if a worker cannot import it."""
    path = entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"
    module, _, name = path.partition(":")
    if module == "__main__":
        raise ValueError("it is defined in the script")
    if entry is not path and getattr(sys.modules.get(module), name, None) is not entry:
        raise ValueError(f"{path} cannot be imported by name")
    return path
