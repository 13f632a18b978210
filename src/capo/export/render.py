"""Environments that render, with a display or without one."""

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from capo.config import Config
from capo.envs.base import quiet
from capo.envs.registry import check_registered, registered_name
from capo.envs.wrapping import check_wrappers, make_dressed, preprocessed
from capo.errors import UsageError

DEFAULT_FPS = 30.0
"""Steps per second of an environment whose metadata has no `render_fps`."""


def headless() -> bool:
    """Whether this is Linux without a display; other systems always have one."""
    displays = (os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.platform.startswith("linux") and not any(displays)


def open_env(config: Config, mode: str) -> tuple[gym.Env, float]:
    """An environment of the configuration's task that has rendered once, and its steps per second.

    A missing package, display or render mode raises UsageError here, before an episode.
    """
    env_id = config.env_id
    check_registered(env_id)
    check_wrappers(config.wrappers)
    name = registered_name(env_id)
    wrappers, kwargs = preprocessed(name, config.wrappers, config.env_arguments)
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with quiet(gym.spec(name)):
        try:
            with contextlib.closing(make_dressed(name, wrappers, kwargs)) as probe:
                modes, speed = probe.metadata.get("render_modes"), probe.metadata.get("render_fps")
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            raise UsageError(f"{env_id} needs a package that is missing: {error}") from error
        if mode not in (modes or ()):
            raise UsageError(_no_mode(env_id, mode, modes or ()))
        shown = {**kwargs, "render_mode": mode, "disable_env_checker": True}
        env = make_dressed(name, wrappers, shown)
        try:
            _prepare_mujoco(env, mode)
            env.reset(seed=0)
            env.render()
        except Exception as error:
            raise UsageError(_cannot_render(env_id, env, mode, error)) from error
    return env, float(speed or DEFAULT_FPS)


def window_closed(env: gym.Env) -> bool:
    """Whether the window was closed; Gymnasium itself does not stop then."""
    renderer: Any = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        return bool(importlib.import_module("glfw").window_should_close(renderer.viewer.window))
    pygame: Any = sys.modules.get("pygame")
    return bool(pygame and pygame.display.get_init() and pygame.event.peek(pygame.QUIT))


def _prepare_mujoco(env: gym.Env, mode: str) -> None:
    """Selects EGL where there is no display, and the tracking camera if the task has one.

    Gymnasium's default camera does not move, and most robots leave its view within seconds.
    """
    renderer: Any = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None:
        return
    if mode == "human":
        glfw: Any = importlib.import_module("glfw")
        if not glfw.init() or not glfw.get_primary_monitor():
            raise RuntimeError("no display")  # GLFW itself would abort the process.
    if mode == "rgb_array" and headless():
        # After the import of MuJoCo, which fails without EGL if this is set before.
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("EGL_LOG_LEVEL", "fatal")
    if mode == "rgb_array" and os.environ.get("MUJOCO_GL") == "egl":
        # If EGL is incomplete, this fails without the output of Gymnasium's viewer.
        importlib.import_module("mujoco.egl").GLContext(16, 16).free()
    mujoco: Any = importlib.import_module("mujoco")
    track = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
    if track != -1 and renderer.camera_id == -1:
        fixed = {"type": mujoco.mjtCamera.mjCAMERA_FIXED, "fixedcamid": track}
        renderer.camera_id = track
        renderer.default_cam_config = {**(renderer.default_cam_config or {}), **fixed}


def _no_mode(env_id: str, mode: str, modes: Sequence[str]) -> str:
    has = f"it has {', '.join(modes)}" if modes else "it has none"
    advice = "; add --out play.gif" if mode == "human" and "rgb_array" in modes else ""
    return f"{env_id} has no render mode {mode}, {has}{advice}"


def _cannot_render(env_id: str, env: gym.Env, mode: str, error: Exception) -> str:
    if isinstance(error, gym.error.DependencyNotInstalled):
        return f"rendering {env_id} needs a package that is missing: {error}"
    what = f"({type(error).__name__}: {error})"
    if mode == "human":
        return f"no window could be opened for {env_id} {what}; add --out play.gif to record it"
    if hasattr(env.unwrapped, "mujoco_renderer") and os.environ.get("MUJOCO_GL") == "egl":
        return (
            f"{env_id} is rendered with EGL, which does not work here {what}; "
            "on Debian and Ubuntu: apt-get install libegl1 libgl1"
        )
    return f"{env_id} cannot be rendered {what}"
