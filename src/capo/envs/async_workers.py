"""Worker processes of Gymnasium's AsyncVectorEnv after an error: which failed, and how to stop."""

import contextlib
import time
from collections.abc import Iterable
from multiprocessing.connection import wait
from typing import Any

from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from capo.errors import EnvTimeoutError

GRACE_SECONDS = 1.0
"""How long a worker has to reply to a request, or to exit."""


def can_close(env: Any) -> bool:
    """Whether `close` returns: no call is pending and every worker is alive."""
    if not isinstance(env, AsyncVectorEnv) or env.closed:
        return True
    return env._state is AsyncState.DEFAULT and all(p.is_alive() for p in env.processes)


def find_failed(env: Any, error: Exception) -> tuple[list[int], str]:
    """The environments that an error is about, and its reason; empty where they are unknown.

    A reason is given where the error itself does not tell it: for workers that exited.
    """
    if not isinstance(env, AsyncVectorEnv) or env.closed:
        return [], ""
    if raised := [i for i, pipe in enumerate(env.parent_pipes) if pipe is None]:
        return raised, ""
    # A pipe may close shortly before its process exits.
    grace = GRACE_SECONDS if isinstance(error, (EOFError, ConnectionError)) else 0
    sentinels = wait([process.sentinel for process in env.processes], grace)
    if exited := [i for i, process in enumerate(env.processes) if process.sentinel in sentinels]:
        for i in exited:
            env.processes[i].join()
        return exited, exit_reason([env.processes[i].exitcode for i in exited])
    return _unresponsive(env) if isinstance(error, EnvTimeoutError) else [], ""


def exit_reason(codes: Iterable[int | None]) -> str:
    """The reason in an error message for workers that exited with these codes."""
    listed = ", ".join(sorted({str(code) for code in codes}))
    return f"the worker process ended (exit code {listed})"


def _unresponsive(env: AsyncVectorEnv) -> list[int]:
    """The environments whose worker does not reply to a request within the grace period."""
    pipes: dict[Any, int] = {pipe: i for i, pipe in enumerate(env.parent_pipes) if pipe is not None}
    for pipe in pipes:
        with contextlib.suppress(OSError):
            pipe.send(("_call", ("metadata", [], {})))
    deadline = time.monotonic() + GRACE_SECONDS
    while pipes and (ready := wait(list(pipes), max(0.0, deadline - time.monotonic()))):
        for pipe in ready:
            del pipes[pipe]
    return sorted(pipes.values())


def kill_workers(env: Any) -> None:
    """Kills the workers and closes the environment: a worker that hangs may ignore SIGTERM."""
    if isinstance(env, AsyncVectorEnv) and not env.closed:
        for process in env.processes:
            process.kill()
        env._state = AsyncState.DEFAULT  # otherwise close waits for the pending call
        env.close(terminate=True)
