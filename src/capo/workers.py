"""Environments in processes of their own, after something went wrong with one of them."""

import contextlib
import time
from collections.abc import Iterable
from multiprocessing.connection import wait
from typing import Any

from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from capo.envs import EnvTimeoutError

PATIENCE = 1.0
"""Seconds that a worker has to answer once it is asked whether it is there."""


def sound(env: Any) -> bool:
    """Whether nothing is under way and every worker is alive: `close` can ask them to end."""
    if not isinstance(env, AsyncVectorEnv) or env.closed:
        return True
    return env._state is AsyncState.DEFAULT and all(p.is_alive() for p in env.processes)


def culprits(env: Any, error: Exception) -> tuple[list[int], str]:
    """Which environments an error is about, as far as that can be found out, and why if not it."""
    if not isinstance(env, AsyncVectorEnv) or env.closed:
        return [], ""
    if raised := [i for i, pipe in enumerate(env.parent_pipes) if pipe is None]:
        return raised, ""
    # A pipe may end a moment before its process does.
    patience = PATIENCE if isinstance(error, (EOFError, ConnectionError)) else 0
    ended = wait([process.sentinel for process in env.processes], patience)
    if dead := [i for i, process in enumerate(env.processes) if process.sentinel in ended]:
        for i in dead:
            env.processes[i].join()
        return dead, gone([env.processes[i].exitcode for i in dead])
    return _silent(env) if isinstance(error, EnvTimeoutError) else [], ""


def gone(codes: Iterable[int | None]) -> str:
    """Why nothing more comes from workers that ended with these codes."""
    listed = ", ".join(sorted({str(code) for code in codes}))
    return f"the worker process ended (exit code {listed})"


def _silent(env: AsyncVectorEnv) -> list[int]:
    """The environments whose worker does not answer; what they answer is of no interest."""
    left: dict[Any, int] = {pipe: i for i, pipe in enumerate(env.parent_pipes) if pipe is not None}
    for pipe in left:
        with contextlib.suppress(OSError):
            pipe.send(("_call", ("metadata", [], {})))
    end = time.monotonic() + PATIENCE
    while left and (ready := wait(list(left), max(0.0, end - time.monotonic()))):
        for pipe in ready:
            del left[pipe]
    return sorted(left.values())


def end(env: Any) -> None:
    """Ends the workers without asking them: they may be stuck, and deaf to SIGTERM."""
    if isinstance(env, AsyncVectorEnv) and not env.closed:
        for process in env.processes:
            process.kill()
        env._state = AsyncState.DEFAULT  # or close would wait for what never comes
        env.close(terminate=True)
