"""Starting the command, observing it from outside, and comparing two run folders."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

from capo.runs.checkpoint import load_newest
from capo.storage.tensors import named_leaves
from support.commands import with_tests_on_path
from support.run_folders import rows_of

LIMIT = 300.0
"""Seconds after which a process that should end counts as hanging."""
GENERATIONS, BATCH = 20, 64
TINY = [
    "-n", str(GENERATIONS * BATCH), "--num-envs", "2", "--num-steps", "32", "--minibatches", "2",
    "--epochs", "2", "--experts", "2", "--hidden", "8", "--diagnostics", "0",
    "--eval-episodes", "2",
]  # fmt: skip
CASES = [
    ("ppo", "CartPole-v1", "gymnasium"),
    ("capo-avg", "CartPole-v1", "envpool"),
    ("capo", "Hopper-v4", "gymnasium"),
    ("trpo", "CartPole-v1", "envpool"),
    ("capo", "CartPole-v1", "envpool"),
    ("ppo", "Hopper-v4", "envpool"),
    ("trpo", "CartPole-v1", "gymnasium"),
    ("capo-avg", "CartPole-v1", "gymnasium"),
]


class NotHereError(Exception):
    """This fault cannot be produced on this machine."""


def some_command(rng: np.random.Generator) -> list[str]:
    """The arguments of a small run: a random method, task, backend, seed, checkpoint interval."""
    here = [case for case in CASES if case[2] == "gymnasium" or importlib.util.find_spec("envpool")]
    algo, task, backend = here[rng.integers(len(here))]
    seed, every = rng.integers(1, 1000), rng.integers(1, 6)
    words = ["train", task, "--algo", algo, "--backend", backend, "--seed", str(seed)]
    return [*words, *TINY, "--checkpoint-every", str(every)]


class Running(NamedTuple):
    """A command in its own session, and the files of its output."""

    process: subprocess.Popen
    out: Path
    err: Path

    @property
    def said(self) -> str:
        """Its standard error so far."""
        return self.err.read_text()

    def send(self, number: int) -> bool:
        """Sends a signal; returns whether the process was still alive."""
        if self.process.poll() is not None:
            return False
        self.process.send_signal(number)
        return True

    def until(self, condition: Callable[[], bool], seconds: float = LIMIT) -> bool:
        """Waits for a condition; returns whether it became true while the process was alive."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.004)
        return False

    def ended(self, seconds: float = LIMIT) -> int:
        """Waits for the end and returns the exit code; no process of the session may be left."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {seconds:g} s: {self.said!r}") from None
        # A child of it that was told to end may need a moment for that.
        end = time.monotonic() + 5
        while (left := of_session(self.process.pid)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, f"processes {left} are left of it"
        return code


@contextlib.contextmanager
def running(words: list[str], folder: Path, program: tuple[str, ...] = ("-m", "capo"), **env: str):
    """Starts a command; its processes are killed at the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / "stdout", folder / "stderr"
    with out.open("w") as said, err.open("w") as told:
        process = subprocess.Popen(
            [sys.executable, *program, *words], stdout=said, stderr=told, cwd=folder,
            stdin=subprocess.DEVNULL, env=with_tests_on_path(**env),
            start_new_session=True,
        )  # fmt: skip
    try:
        yield Running(process, out, err)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(words: list[str], folder: Path, **env: str) -> float:
    """Runs a command, which must succeed; returns the seconds it took."""
    began = time.monotonic()
    with running(words, folder, **env) as command:
        code = command.ended()
        assert code == 0, f"exit code {code}: {command.said!r}"
    return time.monotonic() - began


def of_session(number: int) -> list[int]:
    """The live processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session, *_ = entry.read_text().rpartition(")")[2].split()
            if int(session) == number and state != "Z":
                found.append(int(entry.parent.name))
    return found


def logged(run: Path) -> int:
    """The number of generations in metrics.jsonl."""
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def status(run: Path) -> str | None:
    """The status in the manifest of a run."""
    file = run / "manifest.json"
    return json.loads(file.read_text())["status"] if file.exists() else None


def arrays(run: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of the newest checkpoint and of the model."""
    step = load_newest(run).step
    played = np.concatenate(step.collector.played) if step.collector.played else ()
    yield from named_leaves((step.state, step.collector._replace(played=played))).items()
    yield "generation", np.array(step.number)
    yield "recent", np.array([*step.recent.returns, *step.recent.lengths])
    yield from load_file(run / "model.safetensors").items()


def assert_same(run: Path, whole: Path) -> None:
    """Two runs have equal checkpoints, models, metrics and evaluations, bit for bit."""
    ours, theirs = (
        {name: (x := np.asarray(value)).dtype.str + x.tobytes().hex() for name, value in arrays(r)}
        for r in (run, whole)
    )
    wrong = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    assert not wrong, f"{run} is not as {whole} in {wrong[:5]}"
    assert rows_of(run) == rows_of(whole), f"the metrics of {run} are not those of {whole}"
    results = [(r / "eval.json").read_text() for r in (run, whole) if (r / "eval.json").exists()]
    assert len({*results}) == 1, f"the evaluation of {run} is not that of {whole}"


def assert_loads(run: Path) -> int:
    """Loads the newest checkpoint; returns its number of generations."""
    return load_newest(run).step.number + 1
