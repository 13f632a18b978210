"""The time that EnvPool's threads lose by sleeping while the policy chooses actions.

python -m benchmarks.thread_wakeups

Compares, in turns, environment steps with precomputed actions (alone) and while collecting a batch
(in a run), where the threads sleep between steps. Each is also measured with idle-priority busy
loops in the background, which only keep the cores awake.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.speed.breakdown import TimedSteps
from capo.config import Config
from capo.core.devices import available_cores
from capo.envs.backends import make
from capo.methods import settle
from capo.rollout import Collector, collect
from capo.state import init
from capo.storage.compiled import prepare_jax

ENVS, ROUNDS = ("HalfCheetah-v4", "Hopper-v4"), 12
BUSY_LOOP = (
    "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
)


@contextlib.contextmanager
def busy_loops() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A busy loop for each core, suspended until it gets SIGCONT."""
    found = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(available_cores())]
    try:
        time.sleep(0.5)
        send(found, signal.SIGSTOP)
        yield found
    finally:
        for each in found:
            each.kill()


def send(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    """Sends a signal to each process."""
    for each in processes:
        os.kill(each.pid, number)


def measure(env_id: str, loops: list[subprocess.Popen[bytes]]) -> dict[str, list[float]]:
    """Milliseconds of a batch's steps, alone and in a run, without and with the busy loops."""
    plain = Config(env_id, algo="ppo", preset="corrected")
    alone, env = make(env_id, plain.num_envs, 2), TimedSteps(make(env_id, plain.num_envs, 1))
    config = settle(plain, env.observation_space)
    alone.reset(2)
    state = init(config, env.observation_space, env.action_space)
    collector, rng = Collector.init(env, config), np.random.default_rng(0)  # pyright: ignore
    space = env.action_space
    shape = (config.num_steps, config.num_envs, *space.shape)
    actions = rng.uniform(space.low, space.high, shape).astype(space.dtype)
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for kept_awake in ("", ", cores kept awake"):
            if kept_awake:
                send(loops, signal.SIGCONT)
            began = time.perf_counter()
            for action in actions:
                alone.step(action)
            found.setdefault(f"alone{kept_awake}", []).append(time.perf_counter() - began)
            env.seconds = 0.0
            collector, _, _ = collect(env, state.policy, collector, config, rng)  # pyright: ignore
            found.setdefault(f"in a run{kept_awake}", []).append(env.seconds)
            send(loops, signal.SIGSTOP)
    return found


def main() -> None:
    """Prints medians and quartiles."""
    prepare_jax()
    with busy_loops() as loops:
        for index, env_id in enumerate(ENVS):
            found = measure(env_id, loops)
            if not index:
                print(
                    f"| ms for a batch's steps | {' | '.join(found)} |\n|---|{'---:|' * len(found)}"
                )
            cells = [np.quantile(values, (0.5, 0.25, 0.75)) * 1e3 for values in found.values()]
            text = " | ".join(f"{m:.0f} ({low:.0f}–{high:.0f})" for m, low, high in cells)
            print(f"| {env_id} | {text} |", flush=True)


if __name__ == "__main__":
    main()
