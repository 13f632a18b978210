"""Why steps of the environments take longer within a run: are EnvPool's threads slow to wake up?

python benchmarks/waking.py

In turns: the physics alone, with actions that are there already, and collecting a batch, in which
the threads wait while the policy chooses; each also with busy loops beside it that only get what
time nobody else wants, and so do nothing but keep the cores from going to sleep.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from capo.backend import prepare_backend
from capo.config import Config
from capo.envs import available_cores, make
from capo.methods import resolve
from capo.rollout import Collector, collect
from capo.update import init
from contest.split import Clock

ENVS, ROUNDS = ("HalfCheetah-v4", "Hopper-v4"), 12
SPIN = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"


@contextlib.contextmanager
def spinners() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A busy loop for each core, stopped until it is told to go on."""
    found = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(available_cores())]
    try:
        time.sleep(0.5)
        tell(found, signal.SIGSTOP)
        yield found
    finally:
        for each in found:
            each.kill()


def tell(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    """Sends all of them a signal."""
    for each in processes:
        os.kill(each.pid, number)


def measure(env_id: str, loops: list[subprocess.Popen[bytes]]) -> dict[str, list[float]]:
    """Milliseconds of a batch's steps, alone and in a run, without and with the busy loops."""
    config = resolve(Config(env_id, algo="ppo"))
    alone, env = make(env_id, config.num_envs, 2), Clock(make(env_id, config.num_envs, 1))
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
                tell(loops, signal.SIGCONT)
            began = time.perf_counter()
            for action in actions:
                alone.step(action)
            found.setdefault(f"alone{kept_awake}", []).append(time.perf_counter() - began)
            env.seconds = 0.0
            collector, _, _ = collect(env, state.policy, collector, config, rng)  # pyright: ignore
            found.setdefault(f"in a run{kept_awake}", []).append(env.seconds)
            tell(loops, signal.SIGSTOP)
    return found


def main() -> None:
    """Prints medians and quartiles."""
    prepare_backend()
    with spinners() as loops:
        for index, env_id in enumerate(ENVS):
            found = measure(env_id, loops)
            if not index:
                print(
                    f"| ms for a batch's steps | {' | '.join(found)} |\n|---|{'---:|' * len(found)}"
                )
            cells = [np.quantile(values, (0.5, 0.25, 0.75)) * 1e3 for values in found.values()]
            said = " | ".join(f"{m:.0f} ({low:.0f}–{high:.0f})" for m, low, high in cells)
            print(f"| {env_id} | {said} |", flush=True)


if __name__ == "__main__":
    main()
