"""Frames to a GIF or an MP4 that plays at the speed they were taken at."""

import importlib
import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from capo.config import UsageError
from capo.files import write_atomic

COLORS = 128
SAMPLED = 8
"""Frames that the common palette is made from."""


def check_video(path: Path) -> None:
    """Refuses a file that cannot be written, before anything is played."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise UsageError(f"{path} must end in .gif or .mp4")
    if path.suffix.lower() == ".mp4":
        _ffmpeg()


def save_video(path: str | Path, frames: list[np.ndarray], fps: float) -> None:
    """Writes the frames, whole or not at all; the ending of the name says which kind."""
    path = Path(path)
    check_video(path)
    write = _gif if path.suffix.lower() == ".gif" else _mp4
    write_atomic(path, write(frames, fps))


def _gif(frames: list[np.ndarray], fps: float) -> bytes:
    """One palette for all frames and no dithering: what does not move costs no bytes.

    A GIF counts in hundredths of a second, so a frame lasts until the next one's moment, rounded.
    """
    images = [Image.fromarray(frame) for frame in frames]
    sample = np.linspace(0, len(frames) - 1, min(SAMPLED, len(frames))).astype(int)
    mosaic = Image.fromarray(np.concatenate([frames[i] for i in sample]))
    # Not the median cut: where a background fills the picture, it spends the palette on that.
    palette = mosaic.quantize(COLORS, method=Image.Quantize.FASTOCTREE)
    few = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    moments = np.round(np.arange(len(frames) + 1) * 100 / fps).astype(int) * 10
    buffer = io.BytesIO()
    few[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=few[1:],
        duration=np.diff(moments).tolist(),
        loop=0,
        disposal=1,
    )
    return buffer.getvalue()


def _mp4(frames: list[np.ndarray], fps: float) -> bytes:
    """H.264 in the pixel format that every player reads, which wants even sides."""
    height, width = (side - side % 2 for side in frames[0].shape[:2])
    taken = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -".split()
    given = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "play.mp4"
        done = subprocess.run(
            [_ffmpeg(), "-v", "error", *taken, *given, str(file)],
            input=b"".join(frame[:height, :width].tobytes() for frame in frames),
            capture_output=True,
        )
        if done.returncode:
            raise UsageError(f"ffmpeg failed: {done.stderr.decode(errors='replace')}")
        return file.read_bytes()


def _ffmpeg() -> str:
    """The program on the path, or the one that the extra brings."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        return importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except ImportError as error:
        raise UsageError(
            "writing an MP4 needs ffmpeg: pip install 'capo-rl[play]'; a .gif needs nothing"
        ) from error
