"""The process of one contestant: prepares, says so, then does generations when it is asked to.

One line of JSON in, one out. Whatever the contestant itself prints goes to the log.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

KINDS = {
    "ours": ("contest.ours", "train"),
    "run": ("contest.ours", "run"),
    "physics": ("contest.ours", "physics"),
    "split": ("contest.split", "split"),
    "sb3": ("contest.peers", "sb3"),
    "sbx": ("contest.peers", "sbx"),
    "trpo": ("contest.peers", "trpo"),
}
"""Each is a function of the task and the settings, which yields after every generation."""


def serve(kind: str, env: str, settings: dict[str, Any], warmup: int) -> None:
    """Answers until there is nobody to ask any more."""
    # What others print must not come in between.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(found: dict[str, Any]) -> None:
        answers.write(json.dumps(found) + "\n")
        answers.flush()

    try:
        module, name = KINDS[kind]
        generations = getattr(importlib.import_module(module), name)(env, settings)
        for _ in range(warmup):
            next(generations)
        answer({"ready": True})
        for line in sys.stdin:
            found, private = [], []
            for _ in range(json.loads(line)):
                found.append(next(generations))
                private.append(_private())
            answer({"generations": found, "private": private, "peak": _status("VmHWM")})
        generations.close()
    except Exception as error:
        traceback.print_exc()
        answer({"error": _in_a_line(error)})


def _private() -> float:
    return importlib.import_module("faults.soaking").memory_used()


def _status(name: str) -> float:
    """A line of this process's status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found[name].split()[0]) / 1024


def _in_a_line(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


if __name__ == "__main__":
    serve(**json.loads(sys.argv[1]))
