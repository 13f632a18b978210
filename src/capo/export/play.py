"""Episodes of a policy shown in a window or recorded as video frames."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from PIL import Image

from capo.evaluation import Evaluation, episode_seed
from capo.export.render import open_env, window_closed
from capo.model import Model, check_fit

MAX_STEPS = 1000
TINY, ENLARGED = 64, 240
"""Frames narrower than TINY pixels, such as MinAtar's 10 × 10, are enlarged to about ENLARGED."""


class Video(NamedTuple):
    """Frames of shape (height, width, 3), frames per second, and the episodes' results."""

    frames: list[np.ndarray]
    fps: float
    episodes: Evaluation


def play_episodes(
    model: Model,
    episodes: int = 1,
    seed: int | None = None,
    max_steps: int = MAX_STEPS,
    deterministic: bool = True,
    fps: float = math.inf,
    width: int | None = None,
) -> Video:
    """Plays episodes of at most `max_steps` and records frames.

    For an environment of f steps per second, every ⌈f / fps⌉-th step and the last one are rendered.
    Frames wider than `width` are scaled down, tiny ones up. On Linux without a display MuJoCo
    renders with EGL unless MUJOCO_GL is set.
    """
    frames: list[np.ndarray] = []
    env, speed = open_env(model.config, "rgb_array")
    every = math.ceil(speed / min(fps, speed))

    def on_step(step: int, over: bool) -> bool:
        if over or step % every == 0:
            frames.append(_scaled(np.asarray(env.render()), width))
        return True

    with contextlib.closing(env):
        recording = _play(model, env, episodes, seed, max_steps, deterministic, on_step)
    return Video(frames, speed / every, recording)


def watch(
    model: Model,
    episodes: int = 1,
    seed: int | None = None,
    max_steps: int = MAX_STEPS,
    deterministic: bool = True,
) -> Evaluation:
    """Plays episodes of at most `max_steps` in a window, in real time, until it is closed."""
    env, speed = open_env(model.config, "human")
    due = time.monotonic()

    def on_step(step: int, over: bool) -> bool:
        nonlocal due
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + 1 / speed, time.monotonic())
        return not window_closed(env)

    with contextlib.closing(env):
        return _play(model, env, episodes, seed, max_steps, deterministic, on_step)


def _play(
    model: Model,
    env: gym.Env,
    episodes: int,
    seed: int | None,
    max_steps: int,
    deterministic: bool,
    on_step: Callable[[int, bool], bool],
) -> Evaluation:
    """Plays episodes with the seeds of `evaluate`: `seed`, `seed` + 1, …

    `on_step` gets the number of every step and whether it is the last one of its episode; it
    returns False to stop.
    """
    check_fit(model, env.observation_space, env.action_space, model.config.env_id)
    seed = episode_seed(model, seed)
    rng = np.random.default_rng(seed)
    result = Evaluation([], [])
    for index in range(episodes):
        obs, _ = env.reset(seed=(seed + index) % 2**31)
        total, length, over, state = 0.0, 0, False, None
        going = on_step(0, over)
        while going and not over:
            action, state = model.predict(obs, state, deterministic=deterministic, rng=rng)
            obs, reward, terminated, truncated, _ = env.step(action[()])
            total, length = total + float(reward), length + 1
            over = terminated or truncated or length == max_steps
            going = on_step(length, over)
        result.returns.append(total)
        result.lengths.append(length)
        if not going:
            break
    return result


def _scaled(frame: np.ndarray, width: int | None) -> np.ndarray:
    """The frame as uint8, at most `width` wide; pixels of tiny frames become squares."""
    if np.issubdtype(frame.dtype, np.floating):
        frame = (255 * np.clip(frame, 0, 1)).astype(np.uint8)
    if frame.shape[1] < TINY:
        factor = ENLARGED // frame.shape[1]
        frame = frame.repeat(factor, axis=0).repeat(factor, axis=1)
    if width is None or frame.shape[1] <= width:
        return frame
    size = (width, max(1, round(frame.shape[0] * width / frame.shape[1])))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS))
