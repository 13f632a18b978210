"""A full disk and a read-only disk, as small tmpfs mounts."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from support.faults.running import (
    TINY,
    NotHereError,
    assert_loads,
    assert_same,
    finish,
    logged,
    running,
    some_command,
)  # fmt: skip

MEGABYTES = 8


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """An empty file system in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        raise NotHereError(f"there is no mount here: {error}") from error
    if done.returncode:
        raise NotHereError(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def full_disk(work: Path, rng: np.random.Generator, times: int) -> int:
    """Fills the disk of a run `times` times: an error of one line, and a checkpoint that loads.

    The resumed run ends as one that always had space.
    """
    words, done = some_command(rng), 0
    words[words.index("--checkpoint-every") + 1] = "1"
    finish([*words, "--run-dir", str(work / "whole")], work)
    with mounted(work / "disk") as disk:
        run = disk / "run"
        resume = [*words, "--run-dir", str(run), "--resume", "auto"]
        while done < times and _filled(resume, disk, run, work, rng):
            done += 1
        finish(resume, work)
        assert_same(run, work / "whole")
    return done


def _filled(words: list[str], disk: Path, run: Path, work: Path, rng: np.random.Generator) -> bool:
    """Starts the command and fills the disk after a generation; False if the run had ended."""
    before, filler = logged(run), disk / "filler"
    with running(words, work) as command:
        if not command.until(lambda: logged(run) > max(1, before)):
            assert command.ended() == 0, command.said
            return False
        _fill(filler, int(rng.integers(0, 40)) * 1024)
        code, said = command.ended(), command.said
    if code == 0:
        return False
    assert code == 1, f"exit code {code} on a full disk: {said!r}"
    assert said.count("\n") == 1, f"not one line: {said!r}"
    assert said.startswith(f"capo: {run}"), f"the path is not named: {said!r}"
    assert os.strerror(errno.ENOSPC) in said, said
    assert_loads(run)
    filler.unlink()
    return True


def _fill(file: Path, spare: int) -> None:
    """Fills the disk except for `spare` bytes."""
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    os.truncate(file, max(0, file.stat().st_size - spare))


def read_only(work: Path, rng: np.random.Generator, times: int) -> int:
    """A run in a read-only folder, new or resumed, is refused before it starts."""
    words = ["train", "CartPole-v1", "--algo", "ppo", "--seed", str(rng.integers(99)), *TINY]
    with mounted(work / "disk") as disk:
        run = disk / "run"
        finish([*words, "--run-dir", str(run)], work)
        more = ["train", "--resume", str(run), "-n", "10k", "--override"]
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for index in range(times):
            asked = more if index % 2 else [*words, "--run-dir", str(disk / "other")]
            before = _listed(disk)
            with running(asked, work) as command:
                code, said = command.ended(), command.said
                shown = command.out.read_text()
            assert code == 2, f"exit code {code}: {said!r}"
            assert said.count("\n") == 1, f"not one line: {said!r}"
            assert "cannot be written to" in said, said
            assert "steps/s" not in shown, "it trained first"
            assert _listed(disk) == before, "something was written"
    return times


def _listed(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
