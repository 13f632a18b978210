"""The process of one program: compiles, reports that it is ready, runs generations on request.

Requests and answers are lines of JSON. Output of the program itself goes to the log.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

KINDS = {
    "ours": ("benchmarks.speed.ours", "train"),
    "run": ("benchmarks.speed.ours", "run"),
    "physics": ("benchmarks.speed.ours", "physics"),
    "breakdown": ("benchmarks.speed.breakdown", "breakdown"),
    "sb3": ("benchmarks.speed.peers", "sb3"),
    "sbx": ("benchmarks.speed.peers", "sbx"),
    "trpo": ("benchmarks.speed.peers", "trpo"),
}
"""Module and name of a generator function of task and settings; it yields each generation."""


def serve(kind: str, env: str, settings: dict[str, Any], warmup: int) -> None:
    """Answers requests until standard input ends."""
    # Keep output of libraries apart from the answers.
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
                private.append(_memory("RssAnon", "VmSwap"))
            answer({"generations": found, "private": private, "peak": _memory("VmHWM")})
        generations.close()
    except Exception as error:
        traceback.print_exc()
        answer({"error": _in_a_line(error)})


def _memory(*names: str) -> float:
    """The sum of these entries of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return sum(int(found[name].split()[0]) for name in names) / 1024


def _in_a_line(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


if __name__ == "__main__":
    serve(**json.loads(sys.argv[1]))
