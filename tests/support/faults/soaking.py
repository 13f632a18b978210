"""A long run: its memory does not grow, and nothing is recompiled."""

import json
import sys
from pathlib import Path

import numpy as np

from support.faults.running import running

SOAKS = (
    ("ppo", "CartPole-v1", "auto", 20),
    ("capo", "CartPole-v1", "gymnasium", 50),
    ("capo-avg", "CartPole-v1", "auto", 2),
)
"""Method, task, backend, generations between two checkpoints."""
SETTLED = 100
"""Generations after which the memory must not grow."""
MOST = 1.0
"""Largest growth, in megabytes per hundred generations."""
GENERATIONS = 2000


def soak(work: Path, rng: np.random.Generator, times: int, generations: int = GENERATIONS) -> int:
    """Trains `times` runs of 2,000 generations with the command."""
    for index in range(times):
        algo, task, backend, every = SOAKS[index % len(SOAKS)]
        seed = int(rng.integers(1, 1000))
        words = [
            "train", task, "--algo", algo, "--backend", backend, "--seed", str(seed),
            "-n", str(32 * generations), "--num-envs", "2", "--num-steps", "16",
            "--minibatches", "2", "--epochs", "1", "--experts", "2", "--hidden", "8",
            "--diagnostics", "0", "--eval-episodes", "1", "--checkpoint-every", str(every),
            "--run-dir", str(work / f"{index}"),
        ]  # fmt: skip
        file = work / f"{index}.json"
        with running([str(file), *words], work, ("-m", "support.faults.soaking")) as command:
            assert command.ended(3600) == 0, command.said
        _check(json.loads(file.read_text()), generations, f"{algo} on {task}, {backend}")
    return times


def _check(seen: dict[str, list[float]], generations: int, what: str) -> None:
    memory, compiled = np.array(seen["megabytes"]), seen["compiled"]
    assert len(memory) == generations, f"{what}: {len(memory)} generations"
    # The second half by itself too: what a process gives back early must not make up for growth.
    slope = max(slope_of(memory[SETTLED:]), slope_of(memory[generations // 2 :]))
    assert slope < MOST, f"{what}: memory grows by {slope:.2f} MB in 100 generations"
    late = compiled[-1] - compiled[1]
    assert late == 0, f"{what}: {late:.0f} programs were compiled after generation 2"


def slope_of(megabytes: np.ndarray) -> float:
    """Growth in megabytes per hundred generations, by least squares."""
    return 100 * float(np.polyfit(np.arange(len(megabytes)), megabytes, 1)[0])


def memory_used() -> float:
    """Private memory of this process, resident or swapped out."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(found[name].split()[0]) for name in ("RssAnon", "VmSwap")) / 1024


def main(file: str, *words: str) -> int:
    """Runs the command and records memory and compilations after each generation."""
    import jax

    from capo.cli.main import main as capo
    from capo.runs.folder import RunFolder

    compiled, seen = 0, {"megabytes": [], "compiled": []}

    def count(name: str, *_: float, **__: str) -> None:
        nonlocal compiled
        compiled += name == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    record = RunFolder.record

    def look(self, step, info) -> None:
        record(self, step, info)
        seen["megabytes"].append(memory_used())
        seen["compiled"].append(compiled)

    RunFolder.record = look
    code = capo(list(words))
    assert compiled, "nothing was compiled, or JAX does not tell"
    Path(file).write_text(json.dumps(seen))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
