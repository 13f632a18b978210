"""The program that steps a share of a run's environments: python -m capo.stepper.

`capo.processes` starts it, tells it what to make and what to do, and finds what came out in the
memory that both share.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from capo.envs import EnvError, GymnasiumEnv, quiet
from capo.exchange import DONE, STEP, Arrays, hear, say
from capo.nesting import leaves


def main() -> None:
    """Serves the process at the other end of the socket until it hangs up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever started this decides when it ends
    _end_with_the_other(sys.stdin.fileno())
    channel, file = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    with contextlib.suppress(ConnectionError):
        _serve(channel, file)


def _serve(channel: socket.socket, file: int) -> None:
    """Makes what it is told to, and steps it as often as it is told to."""
    if not (line := hear(channel)):
        return
    asked = json.loads(line)
    try:
        env, arrays = _make(file, **asked)
    except Exception as error:
        why = f"{type(error).__name__}: {error}; --workers 0 steps it in this one"
        say(channel, {"failed": f"{asked['name']} cannot be made in another process: {why}"})
        return
    channel.sendall(DONE)
    while line := hear(channel):
        try:
            types = _do(line, env, arrays)
        except EnvError as error:
            say(channel, {"failed": str(error)})
        else:
            say(channel, {"types": types}) if types else channel.sendall(DONE)
    env.close()


def _end_with_the_other(pipe: int) -> None:
    """Has the system end this process when the one that holds the other end of the pipe is gone.

    Nothing is ever written there, so SIGIO can mean only that, and it ends a process that does not
    catch it: also one that is stuck in an environment and would never read its socket again.
    """
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _make(
    file: int, spec: str, kwargs: dict[str, Any], name: str, rows: int, first: int, seen: Any
) -> tuple[GymnasiumEnv, Arrays]:
    """The environments, and the memory they are to answer in."""
    task = EnvSpec.from_json(spec)
    with quiet():
        env = GymnasiumEnv(lambda: gym.make(task, **kwargs), rows, 0, name, first)
    shapes = [space.shape for space in leaves(env.observation_space, env.observation_space)]
    if shapes != [tuple(shape) for shape in seen]:
        raise ValueError(f"its observation space is {env.observation_space}, elsewhere another")
    arrays = Arrays(file, rows, env.action_space.shape or (), shapes)
    env.turn = arrays.turn
    env.turn[0] = -1
    return env, arrays


def _do(line: bytes, env: GymnasiumEnv, arrays: Arrays) -> list[str]:
    """Resets or steps; returns the types of what came out, if they are not those of before."""
    asked = None if line == STEP else json.loads(line)
    if asked is not None and "reset" in asked:
        return _put(env, arrays, leaves(env.observation_space, env.reset(asked["reset"])))
    if asked is not None:
        arrays.retype_actions(np.dtype(asked["type"]), tuple(asked["shape"]))
    # An environment may keep what it is given, and the memory is overwritten.
    found = env.step(arrays.actions.copy())
    arrays.reward[:] = found.reward
    arrays.terminated[:] = found.terminated
    arrays.truncated[:] = found.truncated
    both = (leaves(env.observation_space, obs) for obs in (found.obs, found.next_obs))
    return _put(env, arrays, [part for obs in both for part in obs])


def _put(env: GymnasiumEnv, arrays: Arrays, parts: Iterable[np.ndarray]) -> list[str]:
    changed = False
    for i, part in enumerate(parts):
        if part.dtype != arrays.parts[i].dtype:
            try:
                arrays.retype(i, part.dtype)
            except ValueError as error:
                raise EnvError(f"{env.name}: an observation has no place: {error}") from error
            changed = True
        arrays.parts[i][...] = part
    return [part.dtype.str for part in arrays.parts] if changed else []


if __name__ == "__main__":
    main()
