"""capo's own programs: the training loop, a whole run, and the physics alone."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import ROOT
from benchmarks.speed.cases import ENVS, STEPS
from capo.config import Config
from capo.diagnostics.online import diagnosed_generations
from capo.envs.adapters import config_source
from capo.envs.backends import make
from capo.methods import settle
from capo.runs.folder import CHECKPOINTS, RunFolder
from capo.runs.options import Options
from capo.state import Generation
from capo.train import generations

AHEAD = 10_000
"""Generations in the configuration; the benchmark stops long before the last."""


def config_of(env_id: str, settings: dict[str, Any]) -> Config:
    """The paper's sizes, without warmup, which would be plain PPO, and diagnostics."""
    sizes = {"num_envs": ENVS, "num_steps": STEPS, **settings}
    sizes["total_steps"] = AHEAD * sizes["num_envs"] * sizes["num_steps"]
    return Config(env_id, **{"preset": "corrected", "warmup": 0.0, "diagnostics": 0, **sizes})


def train(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Seconds of each generation, from the end of one to the end of the next."""
    for seconds, step in _timed(config_of(env_id, settings)):
        info = step.info
        yield {
            "seconds": seconds,
            "collect": info["collect_seconds"],
            "update": info["update_seconds"],
        }


def run(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """The loop as `capo train` runs it: with diagnostics, metrics and checkpoints.

    A run of a million steps diagnoses and saves only in some generations. Here every generation
    does, to measure the cost; `seconds` includes the average share of one generation.
    """
    config = settle(config_of(env_id, {**settings, "diagnostics": 1}))
    real = Config(env_id, preset="corrected")
    looks, saves = (
        n / real.num_generations for n in (len(diagnosed_generations(real)), CHECKPOINTS)
    )
    (ROOT / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "runs") as folder:
        run = RunFolder(Path(folder) / "run", config, config.backend, Options(checkpoint_every=0))
        for seconds, step in _timed(config):
            began = time.perf_counter()
            run.record(step, step.info)
            seen = time.perf_counter()
            run.checkpoint()
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
    env = config_source(config).make_for(config)
    steps = generations(config, env)
    try:
        while True:
            began = time.perf_counter()
            step = next(steps)
            yield time.perf_counter() - began, step
    finally:
        env.close()


def physics(env_id: str, settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """The environment steps of a generation, with random actions and no learning."""
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
