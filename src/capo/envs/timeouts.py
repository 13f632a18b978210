"""Timeouts of environments: a step or reset that does not return in time raises an error.

The soft limit raises in the main thread, which suffices for code that runs or waits in Python. The
hard limit is for code that never returns to the interpreter, such as an endless loop in C: it ends
the process, with a traceback, after twice the time. It is off by default, because a library must
not end the process of its caller.
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

from capo.envs.base import Step, VectorEnv, failure_message
from capo.errors import EnvError, EnvTimeoutError, name_of

MIN_TIMER = 1e-6
STDERR = 2


class TimeoutEnv:
    """Wraps environments: a step or reset that takes longer than `seconds` raises `EnvError`.

    None: no limit. `hard` ends the process where the error cannot be raised.
    """

    def __init__(self, env: VectorEnv, name: str, seconds: float | None, hard: bool = False):
        self.backend, self.num_envs = env.backend, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._env, self._name, self._seconds = env, name, seconds or 0.0
        self._hard = hard and seconds is not None
        self._hard_armed_at, self._steps = -self._seconds, 0
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
    def armed(self) -> Iterator[None]:
        """Installs the signal handler once for all steps in the block, instead of at each step."""
        try:
            with Alarm(self._seconds) as self._alarm:
                yield
        finally:
            self._alarm = None
            if self._hard:
                faulthandler.cancel_dump_traceback_later()
                self._hard_armed_at = -self._seconds

    def _timed(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._alarm is None:
            with self.armed():
                return self._timed(call, *args, **kwargs)
        if self._hard:
            self._arm_hard_limit()
        try:
            return self._alarm.limit(call, *args, **kwargs)
        except EnvTimeoutError as error:
            raise EnvError(failure_message(self._name, [], self._steps, error)) from error

    def _arm_hard_limit(self) -> None:
        """Arms the hard limit, at most every `seconds` / 4, because each time starts a thread.

        A call is therefore stopped after 1¾ to 2 times `seconds`.
        """
        now = time.monotonic()
        if now - self._hard_armed_at > self._seconds / 4:
            self._hard_armed_at = now
            faulthandler.dump_traceback_later(2 * self._seconds, exit=True, file=STDERR)

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


class Alarm:
    """A block in which calls have a time limit, after which they raise `EnvTimeoutError`.

    The error is raised again after every further `seconds`, in case the call catches it. The limit
    needs the main thread and SIGALRM; without them, or with 0 seconds, there is none. The signal's
    previous handler and timer are restored after the block.
    """

    current: ClassVar["Alarm | None"] = None

    def __init__(self, seconds: float):
        self._seconds, self._running = seconds, False
        main = threading.current_thread() is threading.main_thread()
        self._on = seconds > 0 and main and hasattr(signal, "SIGALRM")

    def __enter__(self) -> "Alarm":
        if self._on:
            self._handler = signal.signal(signal.SIGALRM, self._on_signal)
            self._remaining, self._interval = signal.setitimer(signal.ITIMER_REAL, 0)
            self._entered_at = time.monotonic()
            Alarm.current = self
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            Alarm.current = None
            elapsed = time.monotonic() - self._entered_at
            delay = max(self._remaining - elapsed, MIN_TIMER) if self._remaining else 0
            signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, delay, self._interval)

    def limit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Returns the result of the call, or raises `EnvTimeoutError`."""
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
    def cancel_current() -> None:
        """Lifts the limit of the running call, so that nothing interrupts the cleanup."""
        if Alarm.current is not None:
            Alarm.current._running = False

    @staticmethod
    @contextlib.contextmanager
    def pause_current() -> Iterator[None]:
        """Excludes the block from the limit of the running call, which starts again after it."""
        alarm = Alarm.current
        seconds = alarm._seconds if alarm is not None and alarm._running else 0
        if seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            if seconds:
                signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        # The signal may arrive after the call has returned.
        if self._running:
            raise EnvTimeoutError(
                f"no answer within {self._seconds:g} s ({name_of('env_timeout')})"
            )
