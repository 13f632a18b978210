"""A time limit on environments: a step or a reset that does not come back becomes an error.

The soft limit raises in the main thread, which is enough for whatever runs or waits in Python. Code
that never returns to the interpreter (C code in an endless loop) only the hard limit stops: it ends
the process, with a traceback, after twice the time. A library must not do that to its host, so it
is for those to ask who own the process.
"""

import contextlib
import faulthandler
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from capo.envs import EnvError, EnvTimeoutError, Step, VectorEnv, failed

MOMENT = 1e-6
STDERR = 2


class TimedEnv:
    """The same environments; a step or reset that takes longer than `seconds` is an `EnvError`.

    0 seconds are no limit. `hard` ends the process where the error cannot be raised.
    """

    def __init__(self, env: VectorEnv, name: str, seconds: float, hard: bool = False):
        self.backend, self.num_envs = env.backend, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._env, self._name, self._seconds = env, name, seconds
        self._hard = hard and seconds > 0
        self._armed, self._steps = -seconds, 0
        self._alarm: Alarm | None = None

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Resets all environments."""
        self._steps = 0
        return self._timed(self._env.reset, *args, **kwargs)

    def step(self, actions: np.ndarray) -> Step:
        """Steps all environments."""
        self._steps += 1
        return self._timed(self._env.step, actions)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Prepares the limits for the steps in the block; without it each step does so itself."""
        try:
            with Alarm(self._seconds) as self._alarm:
                yield
        finally:
            self._alarm = None
            if self._hard:
                faulthandler.cancel_dump_traceback_later()
                self._armed = -self._seconds

    def _timed(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._alarm is None:
            with self.watched():
                return self._timed(call, *args, **kwargs)
        if self._hard:
            self._watch()
        try:
            return self._alarm.limit(call, *args, **kwargs)
        except EnvTimeoutError as error:
            raise EnvError(failed(self._name, [], self._steps, error)) from error

    def _watch(self) -> None:
        """Arms the hard limit; as that starts a thread, not at each step: it is 1¾ to 2 times."""
        now = time.monotonic()
        if now - self._armed > self._seconds / 4:
            self._armed = now
            faulthandler.dump_traceback_later(2 * self._seconds, exit=True, file=STDERR)

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


class Alarm:
    """A block in which calls can be limited: one that takes longer gets an `EnvTimeoutError`.

    It is raised over and over, in case the first is swallowed. Only the main thread can be
    interrupted, and only where there is SIGALRM; elsewhere, and for 0 seconds, there is no limit.
    What used the signal before has it back after the block.
    """

    current: ClassVar["Alarm | None"] = None

    def __init__(self, seconds: float):
        self._seconds, self._running = seconds, False
        main = threading.current_thread() is threading.main_thread()
        self._on = seconds > 0 and main and hasattr(signal, "SIGALRM")

    def __enter__(self) -> "Alarm":
        if self._on:
            self._handler = signal.signal(signal.SIGALRM, self._late)
            self._left, self._interval = signal.setitimer(signal.ITIMER_REAL, 0)
            self._began = time.monotonic()
            Alarm.current = self
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            Alarm.current = None
            rest = max(self._left - (time.monotonic() - self._began), MOMENT) if self._left else 0
            signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, rest, self._interval)

    def limit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What the call returns, if it does in time."""
        if not self._on:
            return call(*args, **kwargs)
        try:
            self._running = True
            signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
            return call(*args, **kwargs)
        finally:
            self._running = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    @staticmethod
    def stand_down() -> None:
        """Ends the limit of the call under way, for whoever has to clear up after it."""
        if Alarm.current is not None:
            Alarm.current._running = False

    @staticmethod
    @contextlib.contextmanager
    def paused() -> Iterator[None]:
        """Stops the clock of the call under way for what is no part of it; it then begins anew."""
        alarm = Alarm.current
        seconds = alarm._seconds if alarm is not None and alarm._running else 0
        if seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            if seconds:
                signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _late(self, _: int, __: FrameType | None) -> None:
        # The signal may have been under way when the call came back.
        if self._running:
            raise EnvTimeoutError(f"no answer within {self._seconds:g} s (--env-timeout)")
