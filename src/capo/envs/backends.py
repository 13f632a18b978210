"""The table of environment backends, in the order of preference of `auto`."""

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym

from capo.envs.base import VectorEnv, quiet
from capo.envs.envpool import EnvPoolEnv
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.processes.recipe import recipe_of, workers_for
from capo.envs.processes.vector import ProcessEnv
from capo.envs.registry import check_registered, registered_name, suggest_id
from capo.envs.wrapping import check_wrappers, make_dressed, preprocessed
from capo.errors import UsageError, name_of


class Backend(NamedTuple):
    """An environment backend: a row of `BACKENDS`."""

    preferred: Callable[[str], bool]
    """Whether `auto` chooses this backend for an id."""
    check: Callable[[str], None]
    """Raises UsageError for an id that this backend cannot make."""
    make: Callable[..., VectorEnv]
    """Makes environments: (env_id, num_envs, seed, workers, wrappers, **kwargs) ↦ VectorEnv."""


def choose_backend(env_id: str, backend: str, dressed: bool = False) -> str:
    """The name of the backend for an id; `auto` is the first row that prefers the id.

    For a task with arguments or wrappers (`dressed`) `auto` is Gymnasium, if it has the task.
    """
    if backend == "auto" and dressed and registered_name(env_id) in gym.registry:
        backend = "gymnasium"
    if backend == "auto":
        backend = next(name for name, row in BACKENDS.items() if row.preferred(env_id))
    BACKENDS[backend].check(env_id)
    return backend


def make(
    env_id: str,
    num_envs: int,
    seed: int,
    backend: str = "auto",
    workers: int | None = 0,
    wrappers: Sequence[str] = (),
    **kwargs: Any,
) -> VectorEnv:
    """Makes `num_envs` copies of a registered environment, with these arguments, in `wrappers`.

    `workers` is the number of processes that step a share of Gymnasium's environments (None: chosen
    for the task); EnvPool has threads of its own. The module of a `module:id` and those of wrappers
    are not imported, because they may come from a file: see `import_module_of`, `import_wrappers`.
    """
    with quiet():
        row = BACKENDS[choose_backend(env_id, backend, bool(wrappers or kwargs))]
        return row.make(env_id, num_envs, seed, workers, wrappers, **kwargs)


def _envpool_installed() -> bool:
    return importlib.util.find_spec("envpool") is not None


def _pool_name(env_id: str) -> str:
    """EnvPool's name of a task: ALE/Pong-v5 is Pong-v5."""
    return env_id.removeprefix("ALE/")


def _envpool_has(env_id: str) -> bool:
    import envpool

    return _pool_name(env_id) in envpool.list_all_envs()


def _envpool_preferred(env_id: str) -> bool:
    """Whether the installed EnvPool has the task, and nobody else has registered the id."""
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
    theirs = isinstance(entry, str) and entry.startswith(("gymnasium.envs.", "ale_py."))
    return (entry is None or theirs) and _envpool_installed() and _envpool_has(env_id)


def _check_envpool(env_id: str) -> None:
    if not _envpool_installed():
        backend = name_of("backend", "envpool")
        raise UsageError(f"{backend} needs EnvPool; pip install envpool")
    if not _envpool_has(env_id):
        raise UsageError(f"EnvPool has no environment {env_id!r}{suggest_id(env_id)}")


def _make_envpool(
    env_id: str,
    num_envs: int,
    seed: int,
    workers: int | None,
    wrappers: Sequence[str],
    **kwargs: Any,
) -> VectorEnv:
    if wrappers:
        raise UsageError(
            f"EnvPool takes no {name_of('wrappers')}; use {name_of('backend', 'gymnasium')}"
        )
    return EnvPoolEnv.make(_pool_name(env_id), num_envs, seed, **kwargs)


def _make_gymnasium(
    env_id: str,
    num_envs: int,
    seed: int,
    workers: int | None,
    wrappers: Sequence[str],
    **kwargs: Any,
) -> VectorEnv:
    check_wrappers(wrappers)
    name = registered_name(env_id)
    around, arguments = preprocessed(name, wrappers, kwargs)
    count = workers_for(env_id, workers, num_envs, arguments, around)
    with quiet(gym.spec(name)):
        if count:
            recipe = recipe_of(env_id, arguments, around)
            return ProcessEnv(env_id, recipe, num_envs, seed, count)
        factory = partial(make_dressed, name, around, arguments)
        return GymnasiumEnv(factory, num_envs, seed, name=env_id)


BACKENDS: dict[str, Backend] = {
    "envpool": Backend(_envpool_preferred, _check_envpool, _make_envpool),
    "gymnasium": Backend(lambda _: True, check_registered, _make_gymnasium),
}
