"""Playing one episode after the other for someone to see: in a window, or as frames of a film."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from PIL import Image

from capo.drawing import open_env, window_closed
from capo.evaluation import Evaluation, episode_seed
from capo.model import Model, check_fit

MAX_STEPS = 1000
TINY, ENLARGED = 64, 240
"""Pictures narrower than the first, such as MinAtar's 10 × 10, grow to about the second."""


class Recording(NamedTuple):
    """Frames of shape (height, width, 3), how many of them are a second, and the episodes."""

    frames: list[np.ndarray]
    fps: float
    episodes: Evaluation


def record(
    model: Model,
    episodes: int = 1,
    seed: int | None = None,
    max_steps: int = MAX_STEPS,
    deterministic: bool = True,
    fps: float = math.inf,
    width: int | None = None,
) -> Recording:
    """Plays episodes of at most `max_steps` and keeps what they look like.

    Of an environment that runs at f steps a second every ⌈f / fps⌉-th is drawn, and the last one;
    frames wider than `width` are scaled down to it, tiny ones up. On Linux without a display MuJoCo
    is told to draw by EGL, unless MUJOCO_GL says otherwise.
    """
    frames: list[np.ndarray] = []
    env, speed = open_env(model.config.env_id, "rgb_array")
    every = math.ceil(speed / min(fps, speed))

    def look(step: int, over: bool) -> bool:
        if over or step % every == 0:
            frames.append(_scaled(np.asarray(env.render()), width))
        return True

    with contextlib.closing(env):
        found = _play(model, env, episodes, seed, max_steps, deterministic, look)
    return Recording(frames, speed / every, found)


def watch(
    model: Model,
    episodes: int = 1,
    seed: int | None = None,
    max_steps: int = MAX_STEPS,
    deterministic: bool = True,
) -> Evaluation:
    """Plays episodes of at most `max_steps` in a window, until it is closed.

    Not faster than real time: some environments wait for the clock themselves, others do not.
    """
    env, speed = open_env(model.config.env_id, "human")
    due = time.monotonic()

    def look(step: int, over: bool) -> bool:
        nonlocal due
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + 1 / speed, time.monotonic())
        return not window_closed(env)

    with contextlib.closing(env):
        return _play(model, env, episodes, seed, max_steps, deterministic, look)


def _play(
    model: Model,
    env: gym.Env,
    episodes: int,
    seed: int | None,
    max_steps: int,
    deterministic: bool,
    look: Callable[[int, bool], bool],
) -> Evaluation:
    """Episodes from `seed`, `seed` + 1, …, as `evaluate` has them.

    `look` is told of every step, whether it is an episode's last, and says whether to go on.
    """
    check_fit(model, env.observation_space, env.action_space, model.config.env_id)
    seed = episode_seed(model, seed)
    rng = np.random.default_rng(seed)
    result = Evaluation([], [])
    for index in range(episodes):
        obs, _ = env.reset(seed=(seed + index) % 2**31)
        total, length, over, state = 0.0, 0, False, None
        going = look(0, over)
        while going and not over:
            action, state = model.predict(obs, state, deterministic=deterministic, rng=rng)
            obs, reward, terminated, truncated, _ = env.step(action[()])
            total, length = total + float(reward), length + 1
            over = terminated or truncated or length == max_steps
            going = look(length, over)
        result.returns.append(total)
        result.lengths.append(length)
        if not going:
            break
    return result


def _scaled(frame: np.ndarray, width: int | None) -> np.ndarray:
    """As bytes, not wider than `width`; the few pixels of a tiny picture become squares."""
    if np.issubdtype(frame.dtype, np.floating):
        frame = (255 * np.clip(frame, 0, 1)).astype(np.uint8)
    if frame.shape[1] < TINY:
        times = ENLARGED // frame.shape[1]
        frame = frame.repeat(times, axis=0).repeat(times, axis=1)
    if width is None or frame.shape[1] <= width:
        return frame
    size = (width, max(1, round(frame.shape[0] * width / frame.shape[1])))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS))
