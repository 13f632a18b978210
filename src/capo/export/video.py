"""GIF and MP4 files from frames."""

import importlib
import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from capo.errors import UsageError, install_hint
from capo.storage.files import write_atomic

COLORS = 128
PALETTE_FRAMES = 8
"""Number of frames that the palette of a GIF is computed from."""


def check_video(path: Path) -> None:
    """Raises UsageError for a suffix or an encoder that is not available."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise UsageError(f"{path} must end in .gif or .mp4")
    if path.suffix.lower() == ".mp4":
        _ffmpeg()


def save_video(path: str | Path, frames: list[np.ndarray], fps: float) -> None:
    """Writes a .gif or .mp4 file atomically."""
    path = Path(path)
    check_video(path)
    write = _gif if path.suffix.lower() == ".gif" else _mp4
    write_atomic(path, write(frames, fps))


def _gif(frames: list[np.ndarray], fps: float) -> bytes:
    """A GIF with one palette and no dithering, so that pixels at rest cost no bytes.

    GIF counts in hundredths of a second: every frame's start is rounded, not its duration.
    """
    images = [Image.fromarray(frame) for frame in frames]
    sample = np.linspace(0, len(frames) - 1, min(PALETTE_FRAMES, len(frames))).astype(int)
    mosaic = Image.fromarray(np.concatenate([frames[i] for i in sample]))
    # Median cut would spend the palette on a background that fills the frame.
    palette = mosaic.quantize(COLORS, method=Image.Quantize.FASTOCTREE)
    quantized = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    starts = np.round(np.arange(len(frames) + 1) * 100 / fps).astype(int) * 10
    buffer = io.BytesIO()
    quantized[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=quantized[1:],
        duration=np.diff(starts).tolist(),
        loop=0,
        disposal=1,
    )
    return buffer.getvalue()


def _mp4(frames: list[np.ndarray], fps: float) -> bytes:
    """H.264 in yuv420p, which every player reads and which needs even sides."""
    height, width = (side - side % 2 for side in frames[0].shape[:2])
    source = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -".split()
    codec = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "play.mp4"
        done = subprocess.run(
            [_ffmpeg(), "-v", "error", *source, *codec, str(file)],
            input=b"".join(frame[:height, :width].tobytes() for frame in frames),
            capture_output=True,
        )
        if done.returncode:
            raise UsageError(f"ffmpeg failed: {done.stderr.decode(errors='replace')}")
        return file.read_bytes()


def _ffmpeg() -> str:
    """Path of ffmpeg: the system's, or the one of the extra `play`."""
    if program := shutil.which("ffmpeg"):
        return program
    try:
        return importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except ImportError as error:
        raise UsageError(
            f"writing an MP4 needs ffmpeg: {install_hint('play')}; a .gif needs nothing"
        ) from error
