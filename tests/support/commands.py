"""The command line, and scripts that use the test helpers, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

TINY = [
    "--preset",
    "default",
    "-n",
    "512",
    "--num-envs",
    "2",
    "--num-steps",
    "64",
    "--minibatches",
    "4",
    "--hidden",
    "8",
]
"""Flags of a training run that takes seconds."""


def capo(*words, cwd):
    """Runs `capo` with these words; the completed process."""
    command = [sys.executable, "-m", "capo", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def with_tests_on_path(**changes):
    """Environment variables with which a Python process can import `support`."""
    tests = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **changes}
