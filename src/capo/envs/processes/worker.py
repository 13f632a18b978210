"""The worker program, python -m capo.envs.processes.worker: steps a share of a run's environments.

`capo.envs.processes.vector` starts it, sends it the task and the commands, and reads the results
from the memory they share.
"""

import contextlib
import fcntl
import functools
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from capo.core.nesting import leaves
from capo.envs.base import quiet
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.processes.messages import DONE, STEP, SharedArrays, recv, send
from capo.envs.wrapping import import_wrappers, make_dressed
from capo.errors import EnvError


def main() -> None:
    """Serves the parent process until it closes the connection."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to stop
    _exit_with_parent(sys.stdin.fileno())
    channel, file = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    with contextlib.suppress(ConnectionError):
        _serve(channel, file)


def _serve(channel: socket.socket, file: int) -> None:
    """Makes the environments from the first message, then executes one command a message."""
    if not (line := recv(channel)):
        return
    setup = json.loads(line)
    try:
        env, arrays = _make(file, **setup)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}; without workers it runs in the main process"
        send(channel, {"failed": f"{setup['name']} cannot be made in another process: {reason}"})
        return
    channel.sendall(DONE)
    while line := recv(channel):
        try:
            dtypes = _execute(line, env, arrays)
        except EnvError as error:
            send(channel, {"failed": str(error)})
        else:
            send(channel, {"types": dtypes}) if dtypes else channel.sendall(DONE)
    env.close()


def _exit_with_parent(pipe: int) -> None:
    """Lets the system end this process when the parent exits, which holds the pipe's other end.

    The parent never writes to the pipe, so SIGIO can only mean that it closed. SIGIO ends a process
    that does not handle it, even one that hangs in an environment and no longer reads its socket.
    """
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _make(
    file: int,
    spec: str,
    kwargs: dict[str, Any],
    wrappers: list[str],
    name: str,
    rows: int,
    first: int,
    obs_shapes: Any,
) -> tuple[GymnasiumEnv, SharedArrays]:
    """The environments, and the shared memory for their results."""
    task = EnvSpec.from_json(spec)
    import_wrappers(wrappers)  # the parent process has checked and used them
    with quiet(task):
        factory = functools.partial(make_dressed, task, wrappers, kwargs)
        env = GymnasiumEnv(factory, rows, 0, name, first)
    shapes = [space.shape for space in leaves(env.observation_space, env.observation_space)]
    if shapes != [tuple(shape) for shape in obs_shapes]:
        raise ValueError(f"its observation space {env.observation_space} is not the main process's")
    arrays = SharedArrays(file, rows, env.action_space.shape or (), shapes)
    env.active = arrays.active
    env.active[0] = -1
    return env, arrays


def _execute(line: bytes, env: GymnasiumEnv, arrays: SharedArrays) -> list[str]:
    """Resets or steps; returns the types of all parts of the observations if one has changed."""
    command = None if line == STEP else json.loads(line)
    if command is not None and "reset" in command:
        return _write(env, arrays, leaves(env.observation_space, env.reset(command["reset"])))
    if command is not None:
        arrays.retype_actions(np.dtype(command["type"]), tuple(command["shape"]))
    # A copy: an environment may keep its action, and the next step overwrites the memory.
    step = env.step(arrays.actions.copy())
    arrays.reward[:] = step.reward
    arrays.terminated[:] = step.terminated
    arrays.truncated[:] = step.truncated
    arrays.success[:] = step.success
    both = (leaves(env.observation_space, obs) for obs in (step.obs, step.next_obs))
    return _write(env, arrays, [part for obs in both for part in obs])


def _write(env: GymnasiumEnv, arrays: SharedArrays, parts: Iterable[np.ndarray]) -> list[str]:
    """Copies the parts of observations into the shared memory; returns as `_execute`."""
    changed = False
    for i, part in enumerate(parts):
        if part.dtype != arrays.parts[i].dtype:
            try:
                arrays.retype_part(i, part.dtype)
            except ValueError as error:
                raise EnvError(f"{env.name}: cannot share an observation: {error}") from error
            changed = True
        arrays.parts[i][...] = part
    return [part.dtype.str for part in arrays.parts] if changed else []


if __name__ == "__main__":
    main()
