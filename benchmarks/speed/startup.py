"""Time until the help screen, an import and the first generation."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from benchmarks.documents import ROOT
from benchmarks.speed.cases import SB3, SBX, TASK, Effort, Program, peers
from benchmarks.speed.driver import LIMIT, ProgramError, Timings, Worker
from capo.storage.compiled import SWITCH

HELP, IMPORT, PYTHON = "`capo --help`", '`python -c "import capo"`', '`python -c ""`'
COLD, WARM = ", nothing compiled before", ", compiled by an earlier run"
TRAIN = f"`capo train {TASK}`"
CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
"""Caches every compiled program, however little time it took."""
POLL = 0.01


def startup(effort: Effort, logs: Path, threads: int) -> Timings:
    """Seconds from the start of a process, measured in turns."""
    with tempfile.TemporaryDirectory() as name, (logs / "startup.log").open("a") as log:
        folder = Path(name)
        kept, new = folder / "kept", folder / "new"
        names = {one.name: one for one in peers(TASK, threads)}

        def first(peer: str, cache: Path) -> Callable[[], float]:
            return lambda: _worker(names[peer], cache, log)

        def command(cache: Path) -> Callable[[], float]:
            return lambda: _train(folder, cache, log)

        calls: dict[str, Callable[[], float]] = {
            PYTHON: lambda: _seconds(["-c", ""]),
            IMPORT: lambda: _seconds(["-c", "import capo"]),
            HELP: lambda: _seconds(["-m", "capo", "--help"]),
            TRAIN + COLD: command(new),
            TRAIN + WARM: command(kept),
            SBX + COLD: first(SBX, new),
            SBX + WARM: first(SBX, kept),
            SB3: first(SB3, new),
        }
        found: Timings = {call: {"rounds": []} for call in calls}
        with contextlib.suppress(ProgramError):
            for call in (command(kept), first(SBX, kept)):
                call()
        for turn in range(effort.startup_rounds):
            print(f"  round {turn + 1}: {len(calls)} in turns", flush=True)
            for label, call in calls.items():
                shutil.rmtree(new, ignore_errors=True)
                _take(found[label], label, call)
        return found


def _take(found: dict[str, Any], label: str, call: Callable[[], float]) -> None:
    if "error" in found:
        return
    try:
        found["rounds"].append([{"seconds": call()}])
    except ProgramError as error:
        found |= {"rounds": [], "error": str(error)}
        print(f"  {label}: not run: {error}", flush=True)


def _cached(cache: Path) -> dict[str, str]:
    return {**CACHE, "JAX_COMPILATION_CACHE_DIR": str(cache)}


def _environ(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def _seconds(words: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *words], env=_environ(), capture_output=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise ProgramError(done.stderr.decode().strip().splitlines()[-1])
    return seconds


def _train(folder: Path, cache: Path, log: IO[str]) -> float:
    """The command `capo train`, until the first generation is in its run folder."""
    run = Path(tempfile.mkdtemp(dir=folder)) / "run"
    words = [sys.executable, "-m", "capo", "train", TASK, "--run-dir", str(run)]
    began, metrics = time.perf_counter(), run / "metrics.jsonl"
    environ = _environ(**{SWITCH: str(cache)})
    environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    process = subprocess.Popen(words, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        while not (metrics.exists() and metrics.stat().st_size):
            if process.poll() is not None or time.perf_counter() - began > LIMIT:
                raise ProgramError(f"no generation; exit code {process.returncode}")
            time.sleep(POLL)
        return time.perf_counter() - began
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _worker(program: Program, cache: Path, log: IO[str]) -> float:
    """Until a program has finished one generation."""
    began = time.perf_counter()
    worker = Worker(program, 1, log, **_cached(cache))
    try:
        worker.wait_ready()
        return time.perf_counter() - began
    finally:
        worker.close()
