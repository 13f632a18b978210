"""Gymnasium environments in several processes: a share in this one, the others in workers.

What comes out is what `GymnasiumEnv` gives, bit for bit, however many workers there are. They are
started as programs of their own (`capo.stepper`): forking is not safe once JAX has its threads, and
what multiprocessing starts otherwise imports the user's script again.
"""

import contextlib
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

from capo.config import UsageError
from capo.envs import EnvError, EnvTimeoutError, GymnasiumEnv, Step, failed
from capo.exchange import DONE, STEP, Arrays, hear, new_memory, say
from capo.nesting import leaves, nest, stack
from capo.recipes import Recipe
from capo.registry import split_id
from capo.timeouts import Alarm
from capo.workers import PATIENCE, gone


@dataclass
class Worker:
    """A process that steps some of the environments, and what is shared with it."""

    process: subprocess.Popen
    channel: socket.socket
    memory: int
    """The descriptor of what is shared."""
    which: range
    """The environments that are its own."""
    arrays: Arrays = field(init=False)
    obs: Any = field(init=False)
    answer: Step = field(init=False)
    """What it shows after a reset, and after a step."""


class ProcessEnv:
    """Copies of a registered Gymnasium task, stepped by this process and `workers` others.

    They start while this process does something else, compiling usually. After an error they are
    ended; the next reset starts them again.
    """

    backend = "gymnasium"

    def __init__(self, name: str, recipe: Recipe, num_envs: int, seed: int, workers: int):
        self.name, self.num_envs, self.workers, self._seed = name, num_envs, workers, seed
        self._recipe, self._steps, self._ready = recipe, 0, False
        # The smallest share, as whoever has it also speaks with the workers.
        self._mine = num_envs // (workers + 1)
        self._workers: list[Worker] = []
        weakref.finalize(self, end, self._workers)
        try:
            self._launch()
            kwargs, task = recipe["kwargs"], split_id(name)[1]
            self._own = GymnasiumEnv(lambda: gym.make(task, **kwargs), self._mine, seed, name)
            self.observation_space = self._own.observation_space
            self.action_space = self._own.action_space
            self._brief()
        except BaseException:
            end(self._workers, patience=0)
            raise

    def _launch(self) -> None:
        shares = np.array_split(np.arange(self._mine, self.num_envs), self.workers)
        for share in shares:
            self._workers.append(_launch(range(share[0], share[-1] + 1)))
        self._ready = False

    def _brief(self) -> None:
        """Tells the workers what to make."""
        space = self.observation_space
        seen = [part.shape for part in leaves(space, space)]
        if None in seen:
            raise UsageError(
                f"{self.name}: {space} has no fixed size, so --workers cannot share it"
            )
        for worker in self._workers:
            rows = len(worker.which)
            worker.arrays = Arrays(worker.memory, rows, self.action_space.shape or (), seen)
            _see(worker, space)
            share = {"name": self.name, "rows": rows, "first": worker.which[0], "seen": seen}
            _say(worker, {**self._recipe, **share})

    def _started(self) -> None:
        """Waits until every worker has made its environments, outside any limit of time."""
        with Alarm.paused():
            if not self._workers:
                self._launch()
                self._brief()
            if not self._ready:
                for worker in self._workers:
                    self._hear(worker)
                self._ready = True

    def reset(self, seed: int | None = None) -> Any:
        """Resets all environments, each from its own seed; by default those it was made with."""
        self._steps = 0
        seed = self._seed if seed is None else seed
        with self._careful():
            self._started()
            for worker in self._workers:
                _say(worker, {"reset": seed})
            found = [self._own.reset(seed)]
            for worker in self._workers:
                self._hear(worker)
                found.append(worker.obs)
        return stack(self.observation_space, found, np.concatenate)

    def step(self, actions: np.ndarray) -> Step:
        """Steps each environment once and begins a new episode where one ended."""
        actions = np.asarray(actions)
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} environments")
        if not self._ready:
            raise EnvError(f"{self.name}: the environments have to be reset first")
        self._steps += 1
        with self._careful():
            for worker in self._workers:
                _ask(worker, actions[worker.which.start : worker.which.stop])
            found = [self._own.step(actions[: self._mine])]
            for worker in self._workers:
                self._hear(worker)
                found.append(worker.answer)
        obs, next_obs, *rest = zip(*found, strict=True)
        seen = (stack(self.observation_space, each, np.concatenate) for each in (obs, next_obs))
        return Step(*seen, *map(np.concatenate, rest))

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        """Ends the workers on an error: they may be in the middle of something."""
        try:
            yield
        except BaseException:
            Alarm.stand_down()
            self._ready = False
            end(self._workers, patience=0)
            raise

    def _hear(self, worker: Worker) -> None:
        """Waits until a worker has done what it was asked for."""
        try:
            line = hear(worker.channel)
        except EnvTimeoutError as error:
            busy = [each for each in self._workers if each.arrays.turn[0] >= 0] or [worker]
            which = [i for each in busy for i in _with(each)]
            raise EnvError(failed(self.name, which, self._steps, error)) from error
        if line == DONE:
            return
        if not line:
            raise EnvError(self._lost(worker))
        said = json.loads(line)
        if "failed" in said:
            raise EnvError(said["failed"])
        for i, name in enumerate(said["types"]):
            worker.arrays.retype(i, np.dtype(name))
        _see(worker, self.observation_space)

    def _lost(self, worker: Worker) -> str:
        """What to say of a worker that is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(PATIENCE)
        why = gone([worker.process.returncode])
        return failed(self.name, _with(worker), self._steps, EOFError(), why)

    def close(self) -> None:
        """Closes the environments and ends the workers, also those that are stuck."""
        self._ready = False
        end(self._workers)
        self._own.close()


def _launch(which: range) -> Worker:
    """Starts a worker. It has no part in the signals of the terminal: this process decides."""
    ours, theirs = socket.socketpair()
    memory = new_memory()
    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "capo.stepper", str(theirs.fileno()), str(memory)],
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=(theirs.fileno(), memory),
        stdin=subprocess.PIPE,
        process_group=0,
    )
    theirs.close()
    return Worker(process, ours, memory, which)


def _say(worker: Worker, message: Any) -> None:
    # That it is gone is noticed when it does not answer.
    with contextlib.suppress(ConnectionError):
        say(worker.channel, message)


def _ask(worker: Worker, actions: np.ndarray) -> None:
    """Has a worker step with these actions."""
    arrays = worker.arrays
    same = actions.dtype == arrays.actions.dtype and actions.shape == arrays.actions.shape
    if not same:
        arrays.retype_actions(actions.dtype, actions.shape)
    arrays.actions[...] = actions
    if same:
        with contextlib.suppress(ConnectionError):
            worker.channel.sendall(STEP)
    else:
        _say(worker, {"type": actions.dtype.str, "shape": actions.shape})


def _see(worker: Worker, space: gym.Space) -> None:
    """Brings the worker's observations into the shape of the space."""
    arrays, parts = worker.arrays, iter(worker.arrays.parts)
    worker.obs, next_obs = nest(space, parts), nest(space, parts)
    flags = (arrays.terminated, arrays.truncated)
    worker.answer = Step(worker.obs, next_obs, arrays.reward, *flags)


def _with(worker: Worker) -> list[int]:
    """The environment that a worker is busy with, or all of them if that is not known."""
    turn = int(worker.arrays.turn[0])
    return [worker.which[turn]] if turn >= 0 else list(worker.which)


def end(workers: list[Worker], patience: float = PATIENCE) -> None:
    """Ends processes: by hanging up, and by force where that is not enough."""
    for worker in workers:
        worker.channel.close()
    until = time.monotonic() + patience
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, until - time.monotonic()))
        worker.process.kill()
        worker.process.communicate()
        os.close(worker.memory)
    workers.clear()
