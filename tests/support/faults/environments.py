"""Environments that raise, hang, or lose their worker process."""

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

from support.faults.running import LIMIT, TINY, assert_loads, logged, running

TIMEOUT = 2
STEPS = 32
"""Steps of each environment in a generation."""


def broken(kind: str) -> Callable[[Path, np.random.Generator, int], int]:
    """The trial of one of the tasks of `broken_tasks`."""
    return functools.partial(_broken, (kind,))


def _broken(kinds: tuple[str, ...], work: Path, rng: np.random.Generator, times: int) -> int:
    for index in range(times):
        _break(kinds[index % len(kinds)], work / f"{index}", rng)
    return times


def hangs(work: Path, rng: np.random.Generator, times: int) -> int:
    """Alternates between hanging in Python and in C with the interpreter's lock."""
    return _broken(("Sleeps", "Holds"), work, rng, times)


def _break(kind: str, work: Path, rng: np.random.Generator) -> None:
    """Trains until the task fails: it is named, the exit code is 1, the checkpoint loads."""
    run, name = work / "run", f"support.broken_tasks:{kind}-v0"
    at = int(rng.integers(2 * STEPS + 1, 10 * STEPS))
    words = ["train", name, "--algo", "ppo", *TINY, "--run-dir", str(run)]
    words += ["--checkpoint-every", "1", "--env-timeout", str(TIMEOUT)]
    with running(words, work, BREAK_AT=str(at)) as command:
        code = command.ended(LIMIT)
        said = command.said
    assert code == 1, f"exit code {code} with {name}: {said!r}"
    if kind == "Holds":
        # The process could only be ended from outside Python, with the place where it hung.
        assert "broken_tasks.py" in said, f"the place is not named: {said!r}"
    else:
        assert said.count("\n") == 1, f"not one line: {said!r}"
        assert said.startswith(f"capo: {name}: environment"), f"not named: {said!r}"
        assert f" {at % STEPS or STEPS}" in said or f" {at}" in said, f"step {at}: {said!r}"
    kept = assert_loads(run)
    done = (at - 1) // STEPS
    assert kept == done == logged(run), f"broken at step {at}, {kept} generations were kept"


def worker_killed(work: Path, rng: np.random.Generator, times: int) -> int:
    """Kills a process of an AsyncVectorEnv: the learner raises an EnvError."""
    for index in range(times):
        folder = work / f"{index}"
        run, target = folder / "run", int(rng.integers(1, 5))
        slow = {"BREAK_STEP_SECONDS": "0.002"}
        with running([str(run)], folder, ("-m", "support.faults.workers"), **slow) as command:
            assert command.until(lambda run=run, n=target: logged(run) >= n), command.said
            pids = command.out.read_text().splitlines()[0].split()
            which = int(rng.integers(len(pids)))
            os.kill(int(pids[which]), signal.SIGKILL)
            code, said = command.ended(), command.out.read_text()
        assert code == 3, f"exit code {code}: {said!r} {command.said!r}"
        assert f"environment {which} " in said, f"environment {which} is not named: {said!r}"
        assert assert_loads(run) >= target
    return times
