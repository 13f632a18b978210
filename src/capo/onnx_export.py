"""Writing a policy as ONNX, once the graph is known to do what the policy does."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.config import UsageError
from capo.families import LOG_STD_MIN, Bernoulli, Categorical, DiagGaussian, MultiCategorical
from capo.files import write_atomic
from capo.model import Model
from capo.nesting import parts_of
from capo.normalize import EPSILON
from capo.observations import prepare

OBSERVATIONS = 256
SPREADS = (1.0, 1.0, 3.0, 30.0)
"""Deviations that the observations are drawn with; the last are clipped by the normaliser."""
TOLERANCE = math.exp(LOG_STD_MIN) / 100
"""What parameters may differ by, relative to their size or 1: a hundredth of the least deviation
that a policy can have, so that no one who sees it act can tell."""


class Check(NamedTuple):
    """What a comparison of a graph with its policy found."""

    observations: int
    """How many were compared."""
    difference: float
    """The largest, of parameters."""
    undecided: int
    """Parts of actions that were too close to a tie to be compared."""


def export_onnx(model: Model, path: str | Path, seed: int = 0) -> Check:
    """Writes the deterministic policy as ONNX, after comparing it with `predict`.

    Float inputs are float32. A model with `frame_stack` reads what `predict` returns as its state:
    the frames in one array, the newest at the end of the last axis.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401

        from capo.onnx_graph import build
    except ImportError as error:
        raise UsageError(
            f"ONNX needs a package that is missing ({error.name}): pip install 'capo-rl[onnx]'"
        ) from error
    made = build(model)
    onnx.checker.check_model(made, full_check=True)
    content = made.SerializeToString()
    found = check(model, content, seed)
    write_atomic(Path(path), content)
    return found


def check(model: Model, content: bytes, seed: int = 0) -> Check:
    """Compares a graph with `predict` on random observations; a difference is refused.

    Both round, in their own order, so that a difference counts beyond `TOLERANCE` and ten times
    what `predict` itself is off exact arithmetic. So close to a tie, actions are not compared.
    """
    given, encoded, wanted = _observations(model, np.random.default_rng(seed))
    action, parameters = _run(content, given)
    seen = prepare(model.config, model.obs_stats, encoded)
    ours = model.policy(seen)
    precise = jax.tree.map(np.float64, model.policy)(seen.astype(np.float64))
    slack = TOLERANCE * np.maximum(1, np.abs(ours)) + 10 * np.abs(ours - precise)
    slack = slack.max(axis=-1, keepdims=True)
    difference, decided = np.abs(parameters - ours), _decided(model, ours, slack)
    near = slack if isinstance(model.policy.family, DiagGaussian) else 0
    wrong = ~(difference <= slack).all(axis=-1)
    wrong |= (decided & ~(np.abs(action - wanted) <= near)).reshape(len(wrong), -1).any(axis=-1)
    if wrong.any():
        raise UsageError(
            f"the ONNX graph is not the policy: for {int(wrong.sum())} of {len(wrong)} "
            f"observations it differs, by up to {float(difference.max()):.3g}; nothing was written"
        )
    return Check(len(wrong), float(difference.max()), int(np.sum(~decided)))


def _observations(
    model: Model, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """What the graph is given, what the network reads, and the actions of `predict`."""
    space, encoder, lead = model.observation_space, model.encoder, (OBSERVATIONS,)
    stats = [model.obs_stats.mean, np.sqrt(model.obs_stats.var + EPSILON)]
    halves = (np.array_split(np.atleast_1d(x), encoder.frames) for x in stats)
    frames = [_draw(space, rng, *pair) for pair in zip(*halves, strict=True)]
    if encoder.frames == 1:
        action, _ = model.predict(frames[0], deterministic=True)
        return dict(_named(space, frames[0], "observation")), encoder(frames[0], lead), action
    stacked = np.concatenate([encoder(frame, lead) for frame in frames], axis=-1)
    return {"observation": stacked}, stacked, model.act(stacked)


def _draw(space: gym.Space, rng: np.random.Generator, mean: np.ndarray, std: np.ndarray) -> Any:
    """Observations around what was seen, and far from it; what has no scale is drawn evenly."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        keys, parts = zip(*parts_of(space), strict=True)
        ends = np.cumsum([gym.spaces.flatdim(part) for part in parts])[:-1]
        pieces = zip(parts, np.split(mean, ends), np.split(std, ends), strict=True)
        drawn = [_draw(part, rng, *piece) for part, *piece in pieces]
        isdict = isinstance(space, gym.spaces.Dict)
        return dict(zip(keys, drawn, strict=True)) if isdict else tuple(drawn)
    size = math.prod(space.shape or ())
    if np.issubdtype(space.dtype, np.floating) and mean.size == size:
        spread = np.resize(SPREADS, (OBSERVATIONS, 1))
        x = mean + std * spread * rng.standard_normal((OBSERVATIONS, size))
        return x.reshape(OBSERVATIONS, *(space.shape or ())).astype(np.float32)
    space = copy.deepcopy(space)
    space.seed(int(rng.integers(2**31)))
    found = np.stack([space.sample() for _ in range(OBSERVATIONS)])
    return found.astype(np.float32) if np.issubdtype(found.dtype, np.floating) else found


def _named(space: gym.Space, obs: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """The parts of an observation by the names that the graph's inputs have."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        yield name, obs
        return
    for key, part in parts_of(space):
        yield from _named(part, obs[key], f"{name}.{key}")


def _decided(model: Model, ours: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Which parts of an action the slack cannot change."""
    match model.policy.family:
        case Categorical():
            return _margin(ours) > 2 * slack[..., 0]
        case MultiCategorical(nvec):
            parts = np.split(ours, np.cumsum(nvec)[:-1], axis=-1)
            return np.stack([_margin(part) for part in parts], axis=-1) > 2 * slack
        case Bernoulli():
            return np.abs(ours) > slack
    return np.ones(model.action_space.shape or (), bool)


def _margin(logits: np.ndarray) -> np.ndarray:
    """The lead of the best choice over the second; infinite where there is only one."""
    ordered = np.sort(logits, axis=-1)
    return ordered[..., -1] - ordered[..., -2] if logits.shape[-1] > 1 else logits[..., 0] + np.inf


def _run(content: bytes, given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    action, parameters = session.run(["action", "parameters"], given)
    return np.asarray(action), np.asarray(parameters)
