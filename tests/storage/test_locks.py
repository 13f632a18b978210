"""Locks on folders: who holds one, and what does not release it."""

import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from capo.errors import UsageError
from capo.storage.locks import NAME, Lock, is_held

ELSEWHERE = """
import sys, pathlib
from capo.storage.locks import Lock, is_held
folder = pathlib.Path(sys.argv[1])
print(is_held(folder))
Lock(folder)
"""


def from_another_process(folder):
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(folder)], capture_output=True, text=True
    )
    return done.stdout.strip() == "True", done.stderr


def test_a_lock_is_held_until_it_is_released(tmp_path):
    assert not is_held(tmp_path)
    lock = Lock(tmp_path)
    assert is_held(tmp_path)
    assert (tmp_path / NAME).read_text() == f"{os.getpid()}\n"
    with pytest.raises(UsageError, match="in use by this process; a run has one writer"):
        Lock(tmp_path)
    held, error = from_another_process(tmp_path)
    assert held
    assert f"{tmp_path} is in use by process {os.getpid()};" in error
    lock.release()
    lock.release()
    assert from_another_process(tmp_path) == (False, "")
    assert (tmp_path / NAME).exists()


def test_opening_and_closing_the_file_again_keeps_the_lock(tmp_path):
    lock = Lock(tmp_path)
    (tmp_path / NAME).read_text()
    with pytest.raises(UsageError):
        Lock(tmp_path)
    assert is_held(tmp_path)
    assert from_another_process(tmp_path)[0]
    lock.release()


def test_a_forked_process_does_not_keep_the_lock_of_a_killed_one(tmp_path):
    """Forks of a killed process may live on, as workers do that wait for a pipe."""
    code = """
import os, pathlib, signal, sys, time
from capo.storage.locks import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
if (child := os.fork()) == 0:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        assert is_held(tmp_path)
        holder.kill()
        holder.wait()
        try:
            until_free(tmp_path)
            os.kill(child, 0)  # It is alive.
            Lock(tmp_path).release()
        finally:
            os.kill(child, signal.SIGKILL)


def until_free(folder):
    for _ in range(100):
        if not is_held(folder):
            return
        time.sleep(0.05)
    pytest.fail("the lock outlives its holder")


def test_a_folder_without_a_lock_file_is_not_held(tmp_path):
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "missing")


def test_concurrent_queries_do_not_hold_the_lock(tmp_path):
    Lock(tmp_path).release()
    with (tmp_path / NAME).open() as first:
        fcntl.flock(first, fcntl.LOCK_SH)
        assert not is_held(tmp_path)
