"""Asks the contestants in turns, and keeps what each of them says."""

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

from capo.envs import available_cores
from contest.cases import Contestant, Heat, Size
from marks import ROOT

LIMIT = 300.0
"""Seconds that an answer may take."""
Found = dict[str, dict[str, Any]]
"""Of each contestant the `rounds`, each a list of generations, or the `error` that ended it."""


class FailedError(Exception):
    """A contestant that cannot run; says why in a line."""


class Worker:
    """A contestant in a process of its own, which does nothing unless it is asked."""

    def __init__(self, contestant: Contestant, warmup: int, log: IO[str], **environ: str):
        """Begins to prepare it; `ready` waits for the end of that."""
        words = {**contestant._asdict(), "warmup": warmup}
        del words["name"]
        folders = [ROOT / "benchmarks", ROOT / "tests", ROOT / "src"]
        path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "contest.worker", json.dumps(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **environ},
            start_new_session=True,
        )

    def ready(self) -> None:
        """Returns once it is prepared."""
        self._answer()

    def ask(self, generations: int) -> dict[str, Any]:
        """Has it do some generations; what each took, and the memory in use."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{generations}\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], LIMIT)[0]:
            raise FailedError(f"no answer within {LIMIT:.0f} seconds")
        line = out.readline()
        if not line:
            raise FailedError(f"its process ended with code {self._process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise FailedError(found["error"])
        return found

    def close(self) -> None:
        """Ends it, and whatever it has started."""
        asked, out = self._process.stdin, self._process.stdout
        assert asked is not None
        assert out is not None
        with contextlib.suppress(BrokenPipeError):
            asked.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        out.close()


def in_turns(heat: Heat, size: Size, logs: Path) -> Found:
    """Prepares all contestants, then goes round; every other round in reverse."""
    found: Found = {}
    with prepared(heat, size, logs, found) as workers:
        began = time.monotonic()
        for turn in range(size.most):
            if turn >= size.least and time.monotonic() - began > size.seconds:
                break
            print(f"  round {turn + 1}: {len(workers)} in turns", flush=True)
            for name in list(workers)[:: -1 if turn % 2 else 1]:
                _take(found, workers, name, size.generations)
    return found


def one_by_one(heat: Heat, size: Size, logs: Path) -> Found:
    """Each contestant alone, for as many generations as memory is looked at over."""
    found: Found = {}
    for contestant in heat.contestants:
        single = Heat(heat.name, [contestant])
        with prepared(single, size, logs, found) as workers:
            if contestant.name in workers:
                _take(found, workers, contestant.name, size.memory[1] - size.warmup)
    return found


@contextlib.contextmanager
def prepared(heat: Heat, size: Size, logs: Path, found: Found) -> Iterator[dict[str, Worker]]:
    """The contestants that can run, prepared and idle; as many at a time prepare as have a core."""
    workers: dict[str, Worker] = {}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((logs / f"{heat.name}.log").open("a"))
        for first in range(0, len(heat.contestants), available_cores()):
            some = heat.contestants[first : first + available_cores()]
            began = time.monotonic()
            for contestant in some:
                found[contestant.name] = {"rounds": []}
                worker = workers[contestant.name] = Worker(contestant, size.warmup, log)
                stack.callback(worker.close)
            for contestant in some:
                _prepare(found, workers, contestant.name, began)
        yield workers


def _prepare(found: Found, workers: dict[str, Worker], name: str, began: float) -> None:
    try:
        workers[name].ready()
        print(f"  {name}: ready after {time.monotonic() - began:.1f} s", flush=True)
    except FailedError as error:
        _give_up(found, workers, name, error)


def _take(found: Found, workers: dict[str, Worker], name: str, generations: int) -> None:
    try:
        answer = workers[name].ask(generations)
    except FailedError as error:
        _give_up(found, workers, name, error)
        return
    found[name]["rounds"].append(answer["generations"])
    found[name] |= {"peak": answer["peak"], "private": answer["private"]}


def _give_up(found: Found, workers: dict[str, Worker], name: str, error: FailedError) -> None:
    """A contestant that failed does not come to the start again; what it did does not count."""
    workers.pop(name).close()
    found[name] = {"rounds": [], "error": str(error)}
    print(f"  {name}: not run: {error}", flush=True)
