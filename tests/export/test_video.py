"""Recordings hold their frames at the right speed."""

import shutil
import subprocess

import numpy as np
import pytest

from capo.export.video import _ffmpeg, save_video
from support.gifs import read_gif


def moving(count):
    """A square that moves over a coloured ground."""
    frames = np.full((count, 31, 41, 3), (40, 80, 120), np.uint8)
    for i, frame in enumerate(frames):
        frame[8:24, i : i + 16] = (230, 120, 10)
    return list(frames)


@pytest.mark.parametrize(("fps", "times"), [(50, [2] * 12), (30, [3, 4, 3] * 4), (12.5, [8] * 12)])
def test_a_gif_holds_the_frames_at_their_speed(fps, times, tmp_path):
    frames = moving(12)
    save_video(tmp_path / "a.gif", frames, fps)
    found, durations = read_gif(tmp_path / "a.gif")
    assert durations == times
    assert sum(durations) == round(12 * 100 / fps)
    for ours, theirs in zip(frames, found, strict=True):
        assert np.abs(ours.astype(int) - theirs).max() < 16


def test_an_mp4_holds_the_frames_at_their_speed(tmp_path):
    if shutil.which("ffmpeg") is None:
        pytest.importorskip("imageio_ffmpeg", reason="the extra `play` installs it")
    frames = moving(12)
    save_video(tmp_path / "a.mp4", frames, 12.5)
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]
    words = [_ffmpeg(), "-i", "a.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True)
    assert b"Duration: 00:00:00.96" in done.stderr
    assert b"12.50 fps" in done.stderr
    found = np.frombuffer(done.stdout, np.uint8).reshape(12, 30, 40, 3)
    for ours, theirs in zip(frames, found, strict=True):
        assert np.abs(ours[:30, :40].astype(int) - theirs).mean() < 8
