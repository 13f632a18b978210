"""Playing and recording: the frames are those of the episode, at its speed."""

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from capo.cli.main import main
from capo.config import Config
from capo.errors import UsageError
from capo.evaluation import evaluate
from capo.export.play import _scaled, play_episodes, watch
from capo.export.render import open_env
from capo.export.video import save_video
from capo.model import Model
from support.gifs import read_gif
from support.policies import blank_model
from support.probes import Probe, small

FPS = 20


class Stage(Probe):
    """Renders the time step as a bar; the length of an episode depends on its seed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.length = int(self.np_random.integers(10, 40))
        return found

    def see(self):
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def pay(self):
        return float(self.obs[0]) * float(self.actions[-1])

    def render(self):
        frame = np.zeros((30, 80, 3), np.uint8)
        frame[10:20, : self.t + 1] = (255, 128, 0)
        return frame


class Unseen(Stage):
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012


def test_small_float_images_are_enlarged_to_bytes():
    """As MinAtar renders them."""
    frame = np.zeros((10, 10, 3))
    frame[0, 1] = (1.0, 0.5, 0.0)
    large = _scaled(frame, width=320)
    assert (large.shape, large.dtype) == ((240, 240, 3), np.uint8)
    assert (large[:24, 24:48] == (255, 127, 0)).all()
    assert large.sum() == 24 * 24 * (255 + 127)


@pytest.fixture(autouse=True)
def environments(monkeypatch):
    """Registers the tasks, removes the display, and restores the environment variables."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "EGL_LOG_LEVEL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    gym.register("Stage-v0", Stage)
    gym.register("Unseen-v0", Unseen)
    yield
    del gym.registry["Stage-v0"], gym.registry["Unseen-v0"]


def untrained(env_id: str, **changes) -> Model:
    env = gym.make(env_id)
    config = small(backend="gymnasium", hidden=(8,), **changes).replace(env_id=env_id)
    model = blank_model(config, env.observation_space, env.action_space)
    env.close()
    return model


def decided(env_id: str, **changes) -> Model:
    """A policy with large head weights, so that its actions depend on the observation."""
    model = untrained(env_id, **changes)
    net = model.policy.net
    head = dataclasses.replace(net, weights=(*net.weights[:-1], net.weights[-1] * 100))
    return dataclasses.replace(model, policy=dataclasses.replace(model.policy, net=head))


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    decided("Stage-v0").save(folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("frames", [1, 3])
def test_the_episodes_are_those_of_the_evaluation(frames):
    model = decided("Stage-v0", frame_stack=frames)
    found = play_episodes(model, episodes=4, seed=7).episodes
    wanted = evaluate(model, episodes=4, seed=7)
    assert sorted(zip(found.returns, found.lengths, strict=True)) == sorted(
        zip(wanted.returns, wanted.lengths, strict=True)
    )
    assert len(set(found.lengths)) > 1
    assert play_episodes(model).episodes == evaluate(model, episodes=1)


def test_every_step_is_a_frame_and_the_last_one_too():
    model = decided("Stage-v0")
    whole = play_episodes(model, seed=1)
    (length,) = whole.episodes.lengths
    assert whole.fps == FPS
    assert [int((frame[15, :, 0] > 0).sum()) for frame in whole.frames] == [*range(1, length + 2)]
    thin = play_episodes(model, seed=1, fps=7)
    assert thin.fps == pytest.approx(FPS / 3)
    shown = [int((frame[15, :, 0] > 0).sum()) - 1 for frame in thin.frames]
    assert shown == sorted({*range(0, length, 3), length})
    assert thin.episodes == whole.episodes


def test_max_steps_ends_an_episode():
    found = play_episodes(decided("Stage-v0"), episodes=2, max_steps=5)
    assert found.episodes.lengths == [5, 5]
    assert len(found.frames) == 12


def test_drawn_actions_are_those_of_the_seed():
    model = untrained("Stage-v0")
    first, again, other = (play_episodes(model, 3, seed, deterministic=False) for seed in (1, 1, 2))
    assert first.episodes == again.episodes
    assert first.episodes.returns != play_episodes(model, 3, 1).episodes.returns
    assert first.episodes.returns != other.episodes.returns


def test_wide_frames_are_scaled_and_narrow_ones_are_not():
    model = decided("Stage-v0")
    assert play_episodes(model, max_steps=1, width=40).frames[0].shape == (15, 40, 3)
    assert play_episodes(model, max_steps=1, width=200).frames[0].shape == (30, 80, 3)


def test_play_records_where_there_is_no_display(run, capsys):
    assert main(["play", str(run), "--episodes", "2", "--seed", "3"]) == 0
    episodes = play_episodes(decided("Stage-v0"), 2, 3).episodes
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"Stage-v0, ppo, episode {i + 1}: return {episodes.returns[i]:.1f}, "
        f"length {episodes.lengths[i]}"
        for i in range(2)
    ]
    assert lines[2].startswith(f"recorded: {run / 'play.gif'} ({sum(episodes.lengths) + 2} frames")
    _, times = read_gif(run / "play.gif")
    assert sum(times) == 5 * (sum(episodes.lengths) + 2)
    assert main(["play", str(run / "model.safetensors"), "--max-steps", "3", "--fps", "50"]) == 0
    assert len(read_gif(run / "model.gif")[0]) == 4


def test_hopper_is_rendered_without_a_display(tmp_path):
    model = untrained("Hopper-v4")
    try:
        found = play_episodes(model, seed=0, max_steps=15, fps=25, width=120)
    except UsageError as error:
        pytest.skip(str(error))
    assert os.environ["MUJOCO_GL"] == "egl"
    assert (found.fps, len(found.frames)) == (25, 4)
    for frame, after in zip(found.frames, found.frames[1:], strict=False):
        assert frame.shape == (120, 120, 3)
        assert frame.mean() > 20
        assert frame.std() > 20
        assert np.any(frame != after)
    save_video(tmp_path / "hopper.gif", found.frames, found.fps)
    frames, times = read_gif(tmp_path / "hopper.gif")
    assert times == [4, 4, 4, 4]
    assert np.abs(frames[0].astype(int) - found.frames[0]).mean() < 8


def test_the_camera_follows_the_robot():
    """A fixed camera would see another part of the floor's pattern, and in the end no robot."""
    from capo.export.render import open_env

    try:
        env, speed = open_env(Config("Hopper-v4"), "rgb_array")
    except UsageError as error:
        pytest.skip(str(error))
    robot = env.unwrapped
    assert speed == 125
    brown = []
    for x in (0.0, 10.0):
        robot.set_state(np.r_[x, robot.init_qpos[1:]], robot.init_qvel)
        frame = np.asarray(env.render()).astype(int)
        brown.append(np.mean(frame[..., 0] > 2 * frame[..., 2] + 20))
    env.close()
    assert brown[0] > 0.005
    assert brown[1] == pytest.approx(brown[0], rel=0.2)


def test_cartpole_is_shown_and_its_window_can_be_closed(monkeypatch):
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    pygame = pytest.importorskip("pygame", reason="the extra `play` installs it")
    model = untrained("CartPole-v1")
    found = play_episodes(model, max_steps=3)
    assert (found.fps, len(found.frames)) == (50, 4)
    assert np.mean(found.frames[0] < 128) > 0.005
    assert np.any(found.frames[0] != found.frames[-1])
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert watch(model, episodes=2, max_steps=3).lengths == [3, 3]
    step = gym.envs.classic_control.CartPoleEnv.step

    def closing(self, action):
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        return step(self, action)

    monkeypatch.setattr(gym.envs.classic_control.CartPoleEnv, "step", closing)
    assert watch(model, episodes=2, max_steps=3).lengths == [1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--out film.avi", "film.avi must end in .gif or .mp4"),
        ("--fps 60", "--fps is 60; a .gif plays at most 50"),
        ("--out film.mp4", "needs ffmpeg: pip install -e '.[play]'"),
    ],
)
def test_an_unwritable_recording_is_refused_before_playing(
    words, message, run, monkeypatch, capsys
):
    monkeypatch.chdir(run)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert main(["play", ".", *words.split()]) == 2
    assert message in capsys.readouterr().err
    assert [p.name for p in run.iterdir()] == ["model.safetensors"]


def test_a_task_that_cannot_be_rendered_says_why(run, monkeypatch):
    with pytest.raises(UsageError, match="Unseen-v0 has no render mode rgb_array, it has ansi"):
        play_episodes(untrained("Unseen-v0"))
    with pytest.raises(UsageError, match="no render mode human, it has rgb_array; add --out"):
        watch(untrained("Stage-v0"))
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UsageError, match=r"pygame is not installed, run .*classic-control"):
        play_episodes(untrained("CartPole-v1"))
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["play", str(run), "--width", "100"]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is how Linux draws without a display")
def test_a_missing_egl_is_one_line(tmp_path):
    untrained("Hopper-v4").save(tmp_path / "model.safetensors")
    nowhere = {"__EGL_VENDOR_LIBRARY_DIRS": str(tmp_path / "nowhere")}
    words = [sys.executable, "-m", "capo", "play", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **nowhere})
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "apt-get install libegl1 libgl1" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_what_is_shown_has_its_wrappers_and_arguments():
    wrappers = ("gymnasium.wrappers:TimeAwareObservation",)
    env, _ = open_env(
        Config("CartPole-v1", env_kwargs='{"sutton_barto_reward": true}', wrappers=wrappers),
        "rgb_array",
    )
    with contextlib.closing(env):
        assert env.observation_space.shape == (5,)
        assert env.step(0)[1] == 0.0, "this reward is 0 while the pole stands"
