"""A script of a user, with environments in processes of their own.

python -m support.faults.workers RUN_DIR prints the processes, then learns; an EnvError is code 3.
"""

import sys

import gymnasium as gym

import capo
from capo.errors import EnvError


def main(run_dir: str) -> int:
    env = gym.make_vec("support.broken_tasks:Slow-v0", 2, vectorization_mode="async")
    print(*[process.pid for process in env.unwrapped.processes], flush=True)  # pyright: ignore
    sizes = {"num_steps": 32, "minibatches": 2, "epochs": 2, "hidden": (8,), "diagnostics": 0}
    learner = capo.PPO("MlpPolicy", env, seed=1, **sizes)
    try:
        learner.learn(64 * 1000, progress_bar=False, run_dir=run_dir, checkpoint_every=1)
    except EnvError as error:
        print(error, flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
