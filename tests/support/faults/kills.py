"""SIGKILL at a random moment, then the same command again."""

import shutil
import signal
import time
from pathlib import Path

import numpy as np

from support.faults.running import (
    GENERATIONS,
    Running,
    assert_same,
    finish,
    logged,
    running,
    some_command,
)
from support.faults.running import status as status_of


def sigkill(work: Path, rng: np.random.Generator, times: int) -> int:
    """Kills and resumes runs until there were `times` kills.

    Each must end as the run that was left alone.
    """
    words = some_command(rng)
    whole, run, kills = work / "whole", work / "run", 0
    finish([*words, "--run-dir", str(whole)], work)
    # Once more, as what was compiled before is stored now: how long a run lives.
    life = finish([*words, "--run-dir", str(work / "again")], work)
    assert_same(work / "again", whole)
    again = [*words, "--run-dir", str(run), "--resume", "auto"]
    while kills < times:
        while kills < times and _killed(again, run, life, rng):
            kills += 1
        if status_of(run) != "finished":
            finish(again, work)
        assert_same(run, whole)
        shutil.rmtree(run)
    return kills


def _killed(words: list[str], run: Path, life: float, rng: np.random.Generator) -> bool:
    """Starts the command and kills it; returns whether the run is unfinished."""
    before = logged(run)
    with running(words, run.parent) as command:
        _wait(command, run, before, life, rng)
        if not command.send(signal.SIGKILL):
            code = command.ended()
            assert code == 0, f"after a kill: exit code {code}: {command.said!r}"
            return False
        command.ended()
    return status_of(run) != "finished"


def _wait(command: Running, run: Path, before: int, life: float, rng: np.random.Generator) -> None:
    """Waits for a random moment: any, within a generation, or after the last one."""
    kind = rng.integers(4)
    if kind == 2:
        target = min(GENERATIONS, before + int(rng.integers(1, 5)))
        command.until(lambda: logged(run) >= target)
        time.sleep(rng.uniform(0, 0.05))
    elif kind == 3:
        command.until(lambda: logged(run) >= GENERATIONS)
        time.sleep(rng.uniform(0, 0.5))
    else:
        moment = rng.uniform(0, life)
        command.until(lambda: False, moment)
