"""The classes of `capo` on a small task, with the settings of `support.probes.small`."""

from capo import PPO
from support.probes import Target, small

FIELDS = {
    name: value
    for name, value in small().to_dict().items()
    if name not in ("env_id", "algo", "seed", "network", "total_steps")
}
BATCH = 64
"""Environment steps in a generation."""


def learner(cls=PPO, env=Target, policy="MlpPolicy", **changes):
    """An object that has not learned yet."""
    return cls(policy, env, seed=1, **{**FIELDS, **changes})


def learn(generations=2, cls=PPO, **changes):
    """An object that has learned for some generations."""
    return learner(cls, **changes).learn(generations * BATCH, progress_bar=False)
