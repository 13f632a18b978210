"""ONNX export of a policy, after a comparison of the graph with `predict`."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.core.encoding import prepare
from capo.core.families import LOG_STD_MIN, Bernoulli, Categorical, DiagGaussian, MultiCategorical
from capo.core.nesting import parts_of
from capo.core.normalize import EPSILON
from capo.errors import UsageError, install_hint
from capo.model import Model
from capo.storage.files import write_atomic

OBSERVATIONS = 256
SPREADS = (1.0, 1.0, 3.0, 30.0)
"""Standard deviations of the random observations, in units of those seen in training.

The normaliser clips most of the last kind.
"""
TOLERANCE = math.exp(LOG_STD_MIN) / 100
"""Largest difference of distribution parameters, relative to max(1, size).

It is a hundredth of the smallest standard deviation that a policy can have.
"""


class Agreement(NamedTuple):
    """Agreement of an ONNX graph with its policy."""

    observations: int
    """Number of random observations."""
    difference: float
    """Largest difference of a distribution parameter."""
    undecided: int
    """Components of actions that were not compared because they are too close to a tie."""


def export_onnx(model: Model, path: str | Path, seed: int = 0) -> Agreement:
    """Writes the deterministic policy as ONNX, after a comparison with `predict`.

    Float inputs are float32. The input of a model with `frame_stack` is the state that `predict`
    returns: the frames in one array, the newest at the end of the last axis.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401

        from capo.export.onnx_graph import build
    except ImportError as error:
        raise UsageError(
            f"ONNX needs a package that is missing ({error.name}): {install_hint('onnx')}"
        ) from error
    graph = build(model)
    onnx.checker.check_model(graph, full_check=True)
    content = graph.SerializeToString()
    agreement = compare_with_predict(model, content, seed)
    write_atomic(Path(path), content)
    return agreement


def compare_with_predict(model: Model, content: bytes, seed: int = 0) -> Agreement:
    """Compares a serialized graph with `predict` on random observations.

    A difference beyond rounding raises UsageError. Allowed are `TOLERANCE` plus ten times the
    rounding error of `predict` itself, measured against float64. Discrete actions whose parameters
    are that close to a tie are not compared.
    """
    inputs, encoded, wanted = _observations(model, np.random.default_rng(seed))
    action, parameters = _run(content, inputs)
    normalized = prepare(model.config, model.obs_stats, encoded)
    ours = model.policy(normalized)
    precise = jax.tree.map(np.float64, model.policy)(normalized.astype(np.float64))
    slack = TOLERANCE * np.maximum(1, np.abs(ours)) + 10 * np.abs(ours - precise)
    slack = slack.max(axis=-1, keepdims=True)
    difference, decided = np.abs(parameters - ours), _decided(model, ours, slack)
    near = slack if isinstance(model.policy.family, DiagGaussian) else 0
    wrong = ~(difference <= slack).all(axis=-1)
    wrong |= (decided & ~(np.abs(action - wanted) <= near)).reshape(len(wrong), -1).any(axis=-1)
    if wrong.any():
        raise UsageError(
            f"the ONNX graph differs from the policy for {int(wrong.sum())} of {len(wrong)} "
            f"observations, by up to {float(difference.max()):.3g}; nothing was written"
        )
    return Agreement(len(wrong), float(difference.max()), int(np.sum(~decided)))


def _observations(
    model: Model, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Random observations: inputs of the graph, encoded observations, actions of `predict`."""
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
    """Observations near the running mean and far from it; uniform ones for other spaces."""
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
    samples = np.stack([space.sample() for _ in range(OBSERVATIONS)])
    floating = np.issubdtype(samples.dtype, np.floating)
    return samples.astype(np.float32) if floating else samples


def _named(space: gym.Space, obs: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """The parts of an observation, by the names of the graph's inputs."""
    if not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        yield name, obs
        return
    for key, part in parts_of(space):
        yield from _named(part, obs[key], f"{name}.{key}")


def _decided(model: Model, ours: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Mask of the components of an action that differences within `slack` cannot change."""
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
    """Largest logit minus the second largest; infinite for a single choice."""
    ordered = np.sort(logits, axis=-1)
    return ordered[..., -1] - ordered[..., -2] if logits.shape[-1] > 1 else logits[..., 0] + np.inf


def _run(content: bytes, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    action, parameters = session.run(["action", "parameters"], inputs)
    return np.asarray(action), np.asarray(parameters)
