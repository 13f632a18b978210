"""Tasks of the paper, and the runs on them that its numbers are of."""

from typing import Any

import gymnasium as gym
import numpy as np

from capo.config import Config
from capo.presets import SHUFFLES
from capo.report.format import compact
from capo.sweeps.design import Measure
from capo.sweeps.selection import Selection
from capo.sweeps.summaries import Summary

HOPPER, CHEETAH, WALKER, ANT = "Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"
HUMANOID, STANDUP = "Humanoid-v4", "HumanoidStandup-v4"
ENVS = (HOPPER, CHEETAH, WALKER, ANT, HUMANOID, STANDUP)
STEPS = {**dict.fromkeys(ENVS, 1_000_000), HUMANOID: 4_000_000}
"""Environment steps of a run."""
PAPER_SIZES: dict[str, Any] = {
    "num_envs": Config.num_envs,
    **{name: SHUFFLES[name] for name in ("num_steps", "minibatches")},
}
"""Sizes of a batch in the paper: runs with others are not compared with its numbers."""
SMOKE_SIZES = {"num_envs": 2, "num_steps": 128, "minibatches": 2, "hidden": (8,)}
"""The smallest sizes with which a run executes everything, and an episode ends."""
SMOKE_STEPS, SHORT_STEPS = 2560, 200_000
VECTOR = gym.spaces.Box(-np.inf, np.inf, (1,))


def paper_space(_: str) -> gym.Space:
    """An observation space of the kind that all tasks of the paper have: a vector."""
    return VECTOR


PAPER = Selection(preset="corrected", lengths=tuple(STEPS.items()), space_of=paper_space)
"""All of the paper's runs."""


def of_tier(tier: str) -> Selection:
    """The selection of a tier: `full` is the paper's, `short` and `smoke` are trials."""
    if tier == "smoke":
        # The task of most experiments, so that they share runs.
        sizes = tuple(SMOKE_SIZES.items())
        return PAPER._replace(seeds=1, steps=SMOKE_STEPS, sizes=sizes, only_env=CHEETAH)
    return PAPER._replace(seeds=2, steps=SHORT_STEPS) if tier == "short" else PAPER


def mismatch(env_id: str, run: Summary, measure: Measure) -> str:
    """Why a run on a task cannot be compared with the paper's; empty if it can."""
    if any(run.config[name] != PAPER_SIZES[name] for name in PAPER_SIZES):
        return "other sizes"
    ours, theirs = run.config["total_steps"], PAPER.steps_on(env_id)
    if ours == theirs or measure.relative:
        return ""
    return f"{compact(ours)} steps, paper {compact(theirs)}"
