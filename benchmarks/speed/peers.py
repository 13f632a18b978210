"""Other libraries: Stable-Baselines3's PPO, SBX's PPO, and SB3-contrib's TRPO.

As their users run them on MuJoCo: observations and rewards normalised by VecNormalize, the sizes of
the paper, their own defaults otherwise, on the CPU.
"""

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.speed.cases import ENVS, MINIBATCHES, STEPS
from capo.envs.base import quiet

COMMON = {
    "n_steps": STEPS,
    "batch_size": ENVS * STEPS // MINIBATCHES,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    "device": "cpu",
    "verbose": 0,
    "seed": 1,
}
PPO = {"n_epochs": 10, "clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5}
TRPO = {"n_critic_updates": 10, "cg_max_steps": 10, "cg_damping": 0.1, "target_kl": 0.01}
"""Ten passes over the batch for the critic, in minibatches of 128, and at most ten iterations of
conjugate gradients: what capo's trpo does. SB3-contrib's own default is fifteen."""


def sb3(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Stable-Baselines3's PPO."""
    import stable_baselines3

    return _learn(stable_baselines3.PPO("MlpPolicy", _env(env_id, settings), **COMMON, **PPO))


def sbx(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """SBX's PPO, which runs on JAX."""
    import sbx

    return _learn(sbx.PPO("MlpPolicy", _env(env_id, settings), **COMMON, **PPO))


def trpo(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """SB3-contrib's TRPO."""
    import sb3_contrib

    return _learn(sb3_contrib.TRPO("MlpPolicy", _env(env_id, settings), **COMMON, **TRPO))


def _env(env_id: str, settings: dict[str, Any]) -> Any:
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

    torch.set_num_threads(settings["threads"])
    kind = SubprocVecEnv if settings.get("subproc") else DummyVecEnv
    with quiet():
        return VecNormalize(make_vec_env(env_id, ENVS, seed=1, vec_env_cls=kind))


def _learn(model: Any) -> Iterator[dict[str, float]]:
    """Seconds of each generation: a rollout and the update from it."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Rollout(BaseCallback):
        seconds = began = 0.0

        def _on_rollout_start(self) -> None:
            self.began = time.perf_counter()

        def _on_rollout_end(self) -> None:
            self.seconds = time.perf_counter() - self.began

        def _on_step(self) -> bool:
            return True

    rollout = Rollout()
    try:
        while True:
            began = time.perf_counter()
            model.learn(ENVS * STEPS, callback=rollout, reset_num_timesteps=False)
            whole = time.perf_counter() - began
            yield {"seconds": whole, "collect": rollout.seconds, "update": whole - rollout.seconds}
    finally:
        model.env.close()
