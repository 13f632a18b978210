"""Names of Stable-Baselines3: those that mean the same here, and what the others are."""

import warnings
from typing import Any

from capo.errors import UsageError

SAME = {
    "n_envs": "num_envs",
    "n_steps": "num_steps",
    "n_epochs": "epochs",
    "clip_range": "clip",
    "ent_coef": "entropy_coef",
    "cg_max_steps": "trpo_cg_iters",
    "cg_damping": "trpo_damping",
}
"""Settings of capo by their names in Stable-Baselines3."""
OTHER = {
    "batch_size": "is a count here: minibatches = num_envs · num_steps / batch_size",
    "policy_kwargs": 'is hidden=(64, 64) and activation="tanh" here',
    "clip_range_vf": "is always on here, with the range of clip",
    "normalize_advantage": 'is advantage_norm="minibatch", "batch" or "none" here',
    "use_sde": "is not available; action_noise=0.5 explores with noise correlated in time",
    "stats_window_size": "is always 100 here",
    "tensorboard_log": "is learn(run_dir=…) here: a run folder with the event file",
    "verbose": "is learn(progress_bar=…) here",
    "device": "is chosen by JAX: set JAX_PLATFORMS=cpu in the environment",
    "total_steps": "is given to learn(total_timesteps)",
    "total_timesteps": "is given to learn(total_timesteps)",
    "algo": "is the class: capo.CAPO, capo.PPO, …",
    "env_id": "is the second argument, env",
    "network": 'is the first argument, "MlpPolicy" or "CnnPolicy"',
}
"""What to use instead of names that mean something else."""


def translated(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields by their names in capo; a name that means something else here is an error."""
    named: dict[str, Any] = {}
    for given, value in fields.items():
        if given in OTHER:
            raise UsageError(f"{given} {OTHER[given]}")
        name = SAME.get(given, given)
        if name != given:
            if name in fields:
                raise UsageError(f"{name} is given twice, also as {given}")
            warnings.warn(f"{given} is {name} in capo", stacklevel=4)
        named[name] = value
    return named
