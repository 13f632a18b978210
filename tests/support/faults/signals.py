"""SIGINT, SIGTERM and SIGHUP: the first stops the run after its generation, the second at once."""

import signal
import time
from pathlib import Path

import numpy as np

from support.faults.running import (
    GENERATIONS,
    TINY,
    assert_loads,
    assert_same,
    finish,
    logged,
    running,
    some_command,
    status,
)  # fmt: skip

SLOW = ["train", "support.broken_tasks:Slow-v0", "--algo", "ppo", "--seed", "1", *TINY]
SAID = "stopping after this generation"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def interrupts(work: Path, rng: np.random.Generator, times: int) -> int:
    """Stops and resumes a run `times` times; the result equals the uninterrupted run."""
    words, done = some_command(rng), 0
    finish([*words, "--run-dir", str(work / "whole")], work)
    run = work / "run"
    resume = [*words, "--run-dir", str(run), "--resume", "auto"]
    while done < times:
        if not _stopped(resume, run, rng):
            break
        done += 1
    if status(run) != "finished":
        finish(["train", "--resume", str(run), "--eval-episodes", "2"], work)
    assert_same(run, work / "whole")
    return done + _twice(work / "twice", rng)


def _stopped(words: list[str], run: Path, rng: np.random.Generator) -> bool:
    """Sends a signal within a random generation; False if the run had ended by then."""
    number, before = rng.choice(SIGNALS), logged(run)
    with running(words, run.parent) as command:
        # Not the last ones: after them there is no generation left to stop after.
        if not command.until(lambda: logged(run) > before or logged(run) >= GENERATIONS - 2):
            assert command.ended() == 0, command.said
            return False
        time.sleep(rng.uniform(0, 0.03))
        seen = logged(run)
        if seen >= GENERATIONS - 2 or not command.send(number):
            assert command.ended() == 0, command.said
            return False
        code = command.ended()
        assert code == 128 + number, f"exit code {code} after signal {number}: {command.said!r}"
        assert SAID in command.said, f"it said {command.said!r}"
        assert "Traceback" not in command.said, command.said
    kept = assert_loads(run)
    assert kept == logged(run), f"{logged(run)} generations, but the checkpoint has {kept}"
    assert kept <= seen + 2, f"signal in generation {seen}, stopped after {kept}"
    assert status(run) == "interrupted", f"the manifest says {status(run)}"
    return True


def _twice(work: Path, rng: np.random.Generator) -> int:
    """Sends two signals within one slow generation, which is neither saved nor logged."""
    number, run = rng.choice(SIGNALS), work / "run"
    with running([*SLOW, "--run-dir", str(run), "--checkpoint-every", "1"], work) as command:
        assert command.until(lambda: logged(run) >= 2), command.said
        seen = logged(run)
        time.sleep(rng.uniform(0, 0.3))
        command.send(number)
        assert command.until(lambda: SAID in command.said), command.said
        command.send(number)
        code = command.ended()
        assert code == -number, f"exit code {code} after two signals {number}: {command.said!r}"
    assert logged(run) == seen, "it went on after the second signal"
    # If it came while the generation before was being saved, that was cut short as well.
    assert assert_loads(run) in (seen - 1, seen)
    return 1
