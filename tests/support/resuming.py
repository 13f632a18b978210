"""Small training runs that can be interrupted and resumed."""

from capo import Config
from capo.callbacks import follow
from capo.envs.adapters import encode_observations
from capo.envs.backends import make
from capo.runs.folder import RunFolder
from capo.runs.options import Options
from capo.runs.resume import Resumed, restore
from capo.train import generations
from support.probes import small
from support.run_folders import abandon

GENERATIONS = 14
TASK = {"num_envs": 2, "total_steps": 32 * GENERATIONS, "warmup": 0.2, "epochs": 2}
STATS = {"normalize_obs": True, "normalize_reward": True}


def config_of(algo, **changes) -> Config:
    """A run of 14 generations on CartPole, with warmup and normalisation."""
    env = {"env_id": "CartPole-v1", "diagnostics": 5 if algo == "capo" else 0}
    return small(algo, **TASK, **STATS).replace(**{**env, **changes})


def never(text):
    """A listener for messages that must not come."""
    raise AssertionError(text)


def play(config, path, every=1, start: Resumed | None = None, until=GENERATIONS):
    """Trains in a folder as the command does, and leaves it as a killed process would."""
    env = encode_observations(
        make(config.env_id, config.num_envs, config.seed, config.backend), config
    )
    step = restore(start, env, True, never) if start else None
    run = RunFolder(path, config, env.backend, Options(every), start)
    last = follow(generations(config, env, step), [run.record, lambda s, _: s.number + 1 < until])
    env.close()
    abandon(run)
    if start:
        start.lock.release()
    return last
