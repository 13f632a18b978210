"""capo's own contestants: the loop, the loop as a run has it, and the physics without it."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from capo.adapters import own_source
from capo.config import Config
from capo.diagnostics import diagnosed
from capo.envs import make
from capo.methods import resolve
from capo.runs import CHECKPOINTS, Recording, RunFolder
from capo.train import Generation, generations
from contest.cases import ENVS, STEPS
from marks import ROOT

AHEAD = 10_000
"""Generations that a configuration is made for; nobody waits for the last."""


def config_of(env_id: str, settings: dict[str, Any]) -> Config:
    """The default configuration, at the work of every generation but the first few of a run.

    Without the warmup, which would time plain PPO instead, and without the diagnosis.
    """
    sizes = {"num_envs": ENVS, "num_steps": STEPS, **settings}
    sizes["total_steps"] = AHEAD * sizes["num_envs"] * sizes["num_steps"]
    return Config(env_id, **{"warmup": 0.0, "diagnostics": 0, **sizes})


def train(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Seconds of each generation: from the end of one to the end of the next."""
    for seconds, step in _timed(config_of(env_id, settings)):
        info = step.info
        yield {
            "seconds": seconds,
            "collect": info["collect_seconds"],
            "update": info["update_seconds"],
        }


def run(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """The same with what `capo train` does besides: a diagnosis, a row of metrics, a checkpoint.

    A run of a million steps diagnoses and saves only now and then. Here each generation does, to
    see what they take; `seconds` counts the share of them that a generation has in such a run.
    """
    config = resolve(config_of(env_id, {**settings, "diagnostics": 1}))
    real = Config(env_id)
    looks, saves = (n / real.generations for n in (len(diagnosed(real)), CHECKPOINTS))
    (ROOT / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "runs") as folder:
        record = RunFolder(Path(folder) / "run", config, config.backend, Recording(every=0))
        for seconds, step in _timed(config):
            began = time.perf_counter()
            record.see(step, step.info)
            seen = time.perf_counter()
            record.checkpoint()
            logged, saved = seen - began, time.perf_counter() - seen
            look = step.info["diagnose_seconds"]
            logging, diagnosis = logged + saves * saved, looks * look
            yield {
                "seconds": seconds - look + logging + diagnosis,
                "logging": logging,
                "diagnosis": diagnosis,
                "one diagnosis": look,
                "one checkpoint": saved,
            }


def _timed(config: Config) -> Iterator[tuple[float, Generation]]:
    env = own_source(config).make(config.num_envs, config.seed, config.workers)
    steps = generations(config, env)
    try:
        while True:
            began = time.perf_counter()
            step = next(steps)
            yield time.perf_counter() - began, step
    finally:
        env.close()


def physics(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """As many steps as a generation has, with random actions and nothing else."""
    env = make(env_id, ENVS, 1, settings["backend"])
    space: Any = env.action_space
    actions = np.random.default_rng(0).uniform(space.low, space.high, (STEPS, ENVS, *space.shape))
    actions = actions.astype(space.dtype)
    env.reset()
    try:
        while True:
            began = time.perf_counter()
            for action in actions:
                env.step(action)
            yield {"seconds": time.perf_counter() - began}
    finally:
        env.close()
