"""Gymnasium environments in several processes: a share in this one, the rest in workers.

The results are those of `GymnasiumEnv`, bit for bit, for any number of workers. A worker is a
program of its own (`capo.envs.processes.worker`): forking is unsafe once JAX has started threads,
and the other start methods of multiprocessing import the user's script again.
"""

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from capo.core.nesting import leaves, nest, stack
from capo.envs.async_workers import GRACE_SECONDS, exit_reason
from capo.envs.base import Step, failure_message
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.processes.messages import DONE, STEP, SharedArrays, create_memory, recv, send
from capo.envs.processes.recipe import Recipe
from capo.envs.registry import registered_name
from capo.envs.timeouts import Alarm
from capo.envs.wrapping import make_dressed
from capo.errors import EnvError, EnvTimeoutError, UsageError, name_of


@dataclass
class Worker:
    """A worker process, its connection and its shared memory."""

    process: subprocess.Popen
    channel: socket.socket
    memory: int
    """Descriptor of the shared memory."""
    indices: range
    """Indices of its environments among all of the run."""
    arrays: SharedArrays = field(init=False)
    obs: Any = field(init=False)
    """Observations after a reset: views of the shared memory."""
    result: Step = field(init=False)
    """Result of a step: views of the shared memory."""


class ProcessEnv:
    """Copies of a registered Gymnasium task, stepped by this process and `workers` others.

    The workers start in the background, usually while this process compiles. An error stops them;
    the next reset starts them again.
    """

    backend = "gymnasium"

    def __init__(self, name: str, recipe: Recipe, num_envs: int, seed: int, workers: int):
        self.name, self.num_envs, self.workers, self._seed = name, num_envs, workers, seed
        self._recipe, self._steps, self._ready = recipe, 0, False
        # The smallest share, because this process also serves the workers.
        self._local_count = num_envs // (workers + 1)
        self._workers: list[Worker] = []
        weakref.finalize(self, stop_workers, self._workers)
        try:
            self._start_workers()
            parts = registered_name(name), recipe["wrappers"], recipe["kwargs"]
            factory = functools.partial(make_dressed, *parts)
            self._local = GymnasiumEnv(factory, self._local_count, seed, name)
            self.observation_space = self._local.observation_space
            self.action_space = self._local.action_space
            self._send_setup()
        except BaseException:
            stop_workers(self._workers, grace=0)
            raise

    def _start_workers(self) -> None:
        shares = np.array_split(np.arange(self._local_count, self.num_envs), self.workers)
        for share in shares:
            self._workers.append(_start_worker(range(share[0], share[-1] + 1)))
        self._ready = False

    def _send_setup(self) -> None:
        """Maps the shared memory and sends each worker its task."""
        space = self.observation_space
        obs_shapes = [part.shape for part in leaves(space, space)]
        if None in obs_shapes:
            raise UsageError(
                f"{self.name}: {space} has no fixed size, so {name_of('workers')} cannot share it"
            )
        for worker in self._workers:
            rows, first = len(worker.indices), worker.indices[0]
            shape = self.action_space.shape or ()
            worker.arrays = SharedArrays(worker.memory, rows, shape, obs_shapes)
            _make_views(worker, space)
            share = {"name": self.name, "rows": rows, "first": first, "obs_shapes": obs_shapes}
            _send(worker, {**self._recipe, **share})

    def _wait_until_ready(self) -> None:
        """Waits until every worker has made its environments; that does not count as a timeout."""
        with Alarm.pause_current():
            if not self._workers:
                self._start_workers()
                self._send_setup()
            if not self._ready:
                for worker in self._workers:
                    self._wait_for(worker)
                self._ready = True

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments, each from its own seed; default: the seed of the constructor."""
        self._steps = 0
        seed = self._seed if seed is None else seed
        with self._stopping_workers_on_error():
            self._wait_until_ready()
            for worker in self._workers:
                _send(worker, {"reset": seed})
            shares = [self._local.reset(seed)]
            for worker in self._workers:
                self._wait_for(worker)
                shares.append(worker.obs)
        return stack(self.observation_space, shares, np.concatenate)

    def step(self, actions: np.ndarray) -> Step:
        """Steps every environment and resets those whose episode ended."""
        actions = np.asarray(actions)
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} environments")
        if not self._ready:
            raise EnvError(f"{self.name}: reset the environments before the first step")
        self._steps += 1
        with self._stopping_workers_on_error():
            for worker in self._workers:
                _send_actions(worker, actions[worker.indices.start : worker.indices.stop])
            shares = [self._local.step(actions[: self._local_count])]
            for worker in self._workers:
                self._wait_for(worker)
                shares.append(worker.result)
        space = self.observation_space
        return Step(
            obs=stack(space, [each.obs for each in shares], np.concatenate),
            next_obs=stack(space, [each.next_obs for each in shares], np.concatenate),
            reward=np.concatenate([each.reward for each in shares]),
            terminated=np.concatenate([each.terminated for each in shares]),
            truncated=np.concatenate([each.truncated for each in shares]),
            success=np.concatenate([np.asarray(each.success) for each in shares]),
        )

    @contextlib.contextmanager
    def _stopping_workers_on_error(self) -> Iterator[None]:
        """Stops the workers on an error: they may be in the middle of a step."""
        try:
            yield
        except BaseException:
            Alarm.cancel_current()
            self._ready = False
            stop_workers(self._workers, grace=0)
            raise

    def _wait_for(self, worker: Worker) -> None:
        """Waits for a worker's reply; raises EnvError for a failure, an exit or a timeout."""
        try:
            line = recv(worker.channel)
        except EnvTimeoutError as error:
            busy = [each for each in self._workers if each.arrays.active[0] >= 0] or [worker]
            indices = [i for each in busy for i in _active_indices(each)]
            raise EnvError(failure_message(self.name, indices, self._steps, error)) from error
        if line == DONE:
            return
        if not line:
            raise EnvError(self._exit_message(worker))
        reply = json.loads(line)
        if "failed" in reply:
            raise EnvError(reply["failed"])
        for i, dtype in enumerate(reply["types"]):
            worker.arrays.retype_part(i, np.dtype(dtype))
        _make_views(worker, self.observation_space)

    def _exit_message(self, worker: Worker) -> str:
        """The error message for a worker that exited."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(GRACE_SECONDS)
        reason = exit_reason([worker.process.returncode])
        indices = _active_indices(worker)
        return failure_message(self.name, indices, self._steps, EOFError(), reason)

    def close(self) -> None:
        """Closes the environments and stops the workers, even those that hang."""
        self._ready = False
        stop_workers(self._workers)
        self._local.close()


def _start_worker(indices: range) -> Worker:
    """Starts a worker in a process group of its own: it gets no signals from the terminal."""
    ours, theirs = socket.socketpair()
    memory = create_memory()
    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "capo.envs.processes.worker",
            str(theirs.fileno()),
            str(memory),
        ],
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=(theirs.fileno(), memory),
        stdin=subprocess.PIPE,
        process_group=0,
    )
    theirs.close()
    return Worker(process, ours, memory, indices)


def _send(worker: Worker, message: Any) -> None:
    # If the worker has exited, `_wait_for` raises.
    with contextlib.suppress(ConnectionError):
        send(worker.channel, message)


def _send_actions(worker: Worker, actions: np.ndarray) -> None:
    """Writes the actions to the shared memory and sends the command to step."""
    arrays = worker.arrays
    same = actions.dtype == arrays.actions.dtype and actions.shape == arrays.actions.shape
    if not same:
        arrays.retype_actions(actions.dtype, actions.shape)
    arrays.actions[...] = actions
    if same:
        with contextlib.suppress(ConnectionError):
            worker.channel.sendall(STEP)
    else:
        _send(worker, {"type": actions.dtype.str, "shape": actions.shape})


def _make_views(worker: Worker, space: gym.Space) -> None:
    """Arranges the parts in the shared memory as observations of the space."""
    arrays, parts = worker.arrays, iter(worker.arrays.parts)
    worker.obs, next_obs = nest(space, parts), nest(space, parts)
    worker.result = Step(
        obs=worker.obs,
        next_obs=next_obs,
        reward=arrays.reward,
        terminated=arrays.terminated,
        truncated=arrays.truncated,
        success=arrays.success,
    )


def _active_indices(worker: Worker) -> list[int]:
    """The environment that a worker is stepping; all of its environments if that is unknown."""
    active = int(worker.arrays.active[0])
    return [worker.indices[active]] if active >= 0 else list(worker.indices)


def stop_workers(workers: list[Worker], grace: float = GRACE_SECONDS) -> None:
    """Closes the connections and kills the processes that do not exit within `grace` seconds."""
    for worker in workers:
        worker.channel.close()
    deadline = time.monotonic() + grace
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        worker.process.kill()
        worker.process.communicate()
        os.close(worker.memory)
    workers.clear()
