"""A run outlives its output: full disks, closed pipes, closed terminals."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capo.runs.progress import LossyOutput
from support.commands import with_tests_on_path
from support.faults.running import GENERATIONS, TINY, logged, status

WORDS = ["-m", "capo", "train", "CartPole-v1", "--algo", "ppo", *TINY, "--run-dir", "run"]
SLOW = [*WORDS[:3], "support.broken_tasks:Slow-v0", *WORDS[4:]]
HANGUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.Handlers(int(sys.argv[1])))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Becomes another Python process, with the disposition of SIGHUP that is its first argument."""


def started(words, folder, out):
    return subprocess.Popen(
        [sys.executable, *words], stdout=out, stderr=subprocess.PIPE, cwd=folder, text=True,
        stdin=subprocess.DEVNULL, env=with_tests_on_path(),
    )  # fmt: skip


def test_a_run_ends_well_on_a_full_disk(tmp_path):
    """/dev/full refuses every byte, as a full disk does; the run folder is on another one."""
    with Path("/dev/full").open("w") as full:
        process = started(WORDS, tmp_path, full)
        _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, "")
    assert status(tmp_path / "run") == "finished"


@pytest.mark.slow
def test_a_run_ends_well_without_a_reader(tmp_path):
    process = started(WORDS, tmp_path, subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(300) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert status(tmp_path / "run") == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_saves_and_ends_a_run_unless_it_is_ignored(ignored, tmp_path):
    """`nohup` starts a command with SIGHUP ignored."""
    run = tmp_path / "run"
    process = started(
        ["-c", HANGUP, str(int(signal.SIG_IGN if ignored else signal.SIG_DFL)), *SLOW],
        tmp_path, subprocess.DEVNULL,
    )  # fmt: skip
    while logged(run) < 2:
        assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=300)
    assert process.returncode == (0 if ignored else 128 + signal.SIGHUP)
    assert status(run) == ("finished" if ignored else "interrupted")
    assert ("stopping after this generation" in said) is not ignored
    assert logged(run) == GENERATIONS if ignored else 2 <= logged(run) < GENERATIONS


def test_output_is_dropped_after_the_first_error():
    class Broken(io.StringIO):
        tries = 0

        def write(self, text):
            self.tries += 1
            raise BrokenPipeError

    stream = Broken()
    output = LossyOutput(stream, redirect=False)
    assert [output.write("one"), output.write("two")] == [3, 3]
    output.flush()
    assert stream.tries == 1
    assert output.closed is False, "everything else is the stream's"


def test_a_redirected_stream_has_nothing_left_to_fail_with():
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    output = LossyOutput(stream, redirect=True)
    output.write("lost")
    output.flush()
    stream.close()  # would raise BrokenPipeError for the buffered text
