"""The time to choose an action, with NumPy and with a jitted call, and the time of the physics.

python -m benchmarks.acting
"""

import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from capo.config import Config
from capo.core.families import to_env
from capo.envs.backends import choose_backend, make
from capo.methods import settle
from capo.rollout import Collector, collect
from capo.state import init

ENVS = ("HalfCheetah-v4", "Hopper-v4", "Ant-v4", "Humanoid-v4")
REPEATS = 15


def microseconds(calls: list[Callable[[], object]], times: int = 200) -> list[float]:
    """Median time of each call; the calls take turns, so that other load affects all equally."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, seen in zip(calls, found, strict=True):
            began = time.perf_counter()
            for _ in range(times):
                call()
            seen.append((time.perf_counter() - began) / times * 1e6)
    return [statistics.median(seen) for seen in found]


def row(env_id: str) -> str:
    plain = Config(env_id, algo="ppo", preset="corrected")
    env = make(env_id, plain.num_envs, 1)
    config = settle(plain, env.observation_space)
    state = init(config, env.observation_space, env.action_space)
    collector, batch, _ = collect(env, state.policy, Collector.init(env, config), config, 0)
    policy, stats, family = state.policy, collector.obs_stats, state.policy.family
    obs, noise = collector.obs, np.asarray(batch.actions[0])
    seen = stats.normalize(obs)
    device_policy, jitted = jax.device_put(policy), jax.jit(lambda p, x: p(x))

    def act() -> np.ndarray:
        return to_env(env.action_space, family.sample(policy(stats.normalize(obs)), noise))

    action = act()
    cells = microseconds(
        [
            lambda: policy(seen),
            lambda: np.asarray(jitted(device_policy, seen)),
            act,
            lambda: env.step(action),
        ]
    )
    env.close()
    backend = choose_backend(env_id, "auto")
    return f"| {env_id} ({backend}) | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |"


def main() -> None:
    print("Microseconds for 8 environments, medians of 15 repeats of 200 calls:\n")
    print("| | NumPy forward | jitted forward | acting, total | physics |")
    print("|---|---:|---:|---:|---:|")
    for env_id in ENVS:
        print(row(env_id), flush=True)


if __name__ == "__main__":
    main()
