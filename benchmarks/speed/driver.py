"""Runs programs in turns in their own processes, and collects their timings."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from benchmarks.documents import ROOT
from benchmarks.speed.cases import Comparison, Effort, Program
from capo.core.devices import available_cores

LIMIT = 300.0
"""Seconds to wait for an answer."""
Timings = dict[str, dict[str, Any]]
"""For each program its `rounds`, each a list of generations, or the `error` that ended it."""


class ProgramError(Exception):
    """A program cannot run; the message is one line."""


class Worker:
    """A program in its own process, idle until `run` is called."""

    def __init__(self, program: Program, warmup: int, log: IO[str], **environ: str):
        """Starts the process; `wait_ready` returns when it has compiled."""
        words = {**program._asdict(), "warmup": warmup}
        del words["name"]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.speed.worker", json.dumps(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **environ},
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        """Returns when the warmup is over."""
        self._answer()

    def run(self, generations: int) -> dict[str, Any]:
        """Runs some generations; returns the time of each, and the memory in use."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{generations}\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], LIMIT)[0]:
            raise ProgramError(f"no answer within {LIMIT:.0f} seconds")
        line = out.readline()
        if not line:
            raise ProgramError(f"its process ended with code {self._process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise ProgramError(found["error"])
        return found

    def close(self) -> None:
        """Ends the process and its children."""
        requests, out = self._process.stdin, self._process.stdout
        assert requests is not None
        assert out is not None
        with contextlib.suppress(BrokenPipeError):
            requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        out.close()


def time_in_turns(comparison: Comparison, effort: Effort, logs: Path) -> Timings:
    """Starts all programs, then times them round by round; every other round is reversed."""
    found: Timings = {}
    with prepared(comparison, effort, logs, found) as workers:
        began = time.monotonic()
        for turn in range(effort.max_rounds):
            if turn >= effort.min_rounds and time.monotonic() - began > effort.seconds:
                break
            print(f"  round {turn + 1}: {len(workers)} in turns", flush=True)
            for name in list(workers)[:: -1 if turn % 2 else 1]:
                _take(found, workers, name, effort.generations)
    return found


def time_separately(comparison: Comparison, effort: Effort, logs: Path) -> Timings:
    """Runs each program alone, up to the last generation after which memory is measured."""
    found: Timings = {}
    for program in comparison.programs:
        single = Comparison(comparison.name, [program])
        with prepared(single, effort, logs, found) as workers:
            if program.name in workers:
                _take(found, workers, program.name, effort.memory[1] - effort.warmup)
    return found


@contextlib.contextmanager
def prepared(
    comparison: Comparison, effort: Effort, logs: Path, found: Timings
) -> Iterator[dict[str, Worker]]:
    """Workers of the programs that can run, compiled and idle. As many start at once as cores."""
    workers: dict[str, Worker] = {}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((logs / f"{comparison.name}.log").open("a"))
        for first in range(0, len(comparison.programs), available_cores()):
            some = comparison.programs[first : first + available_cores()]
            began = time.monotonic()
            for program in some:
                found[program.name] = {"rounds": []}
                worker = workers[program.name] = Worker(program, effort.warmup, log)
                stack.callback(worker.close)
            for program in some:
                _prepare(found, workers, program.name, began)
        yield workers


def _prepare(found: Timings, workers: dict[str, Worker], name: str, began: float) -> None:
    try:
        workers[name].wait_ready()
        print(f"  {name}: ready after {time.monotonic() - began:.1f} s", flush=True)
    except ProgramError as error:
        _drop(found, workers, name, error)


def _take(found: Timings, workers: dict[str, Worker], name: str, generations: int) -> None:
    try:
        answer = workers[name].run(generations)
    except ProgramError as error:
        _drop(found, workers, name, error)
        return
    found[name]["rounds"].append(answer["generations"])
    found[name] |= {"peak": answer["peak"], "private": answer["private"]}


def _drop(found: Timings, workers: dict[str, Worker], name: str, error: ProgramError) -> None:
    """Records the error, discards the program's timings and ends its process."""
    workers.pop(name).close()
    found[name] = {"rounds": [], "error": str(error)}
    print(f"  {name}: not run: {error}", flush=True)
