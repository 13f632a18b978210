"""capo play."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.commands.words import RunPath, TaskName, check_seed, load_model, model_file
from capo.config import UsageError, check_least

if TYPE_CHECKING:
    from capo.evaluation import Evaluation
    from capo.model import Model

LIMITS = {".gif": (25.0, 50.0, 320), ".mp4": (60.0, math.inf, None)}
"""By kind of file: frames a second unless asked for, at most, and pixels of width unless asked."""


def play(
    run: RunPath,
    episodes: int = 1,
    seed: int | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    fps: float | None = None,
    width: int | None = None,
    max_steps: int = 1000,
    stochastic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    env: TaskName = None,
) -> int:
    """Watch a trained policy in a window, or record it as a GIF or MP4.

    Example: capo play runs/Hopper-v4__capo__1__* --out hopper.gif

    Args:
        run: A run folder or a model file.
        episodes: How many episodes to play.
        seed: Seed of the episodes; default: decided by the run's own seed.
        out: Record to this .gif or .mp4; default: a window, or play.gif where there is no display.
        fps: Most frames a second of the file, whose speed stays real; default 25 (.mp4: 60).
        width: Most pixels of width of the file; default 320 (.mp4: as drawn).
        max_steps: End an episode after this many steps.
        stochastic: Draw actions from the policy instead of taking the most likely.
        env: The task to play, if it is not the model's own; it must have the same spaces.
    """
    check_seed(seed)
    _check(episodes, fps, width, max_steps)
    from capo.drawing import headless
    from capo.playing import watch

    file = model_file(run)
    model, deterministic = load_model(run, env), not stochastic
    if out is None and headless():
        out = run / "play.gif" if run.is_dir() else file.with_suffix(".gif")
    if out is not None:
        _record(out, fps, width, model, episodes, seed, max_steps, deterministic)
    elif fps is not None or width is not None:
        raise UsageError("--fps and --width are for a recording; add --out play.gif")
    else:
        _tell(model, watch(model, episodes, seed, max_steps, deterministic))
    return 0


def _check(episodes: int, fps: float | None, width: int | None, max_steps: int) -> None:
    for name, value, least in (
        ("episodes", episodes, 1),
        ("width", width, 16),
        ("max-steps", max_steps, 1),
    ):
        if value is not None:
            check_least(f"--{name}", value, least)
    if fps is not None and not 0 < fps < math.inf:
        raise UsageError(f"--fps is {fps}; it must be above 0")


def _record(out: Path, fps: float | None, width: int | None, model: "Model", *episodes) -> None:
    from rich.console import Console

    from capo.files import check_writable
    from capo.playing import record
    from capo.video import check_video, save_video

    check_video(out)
    check_writable(out.parent)
    usual, most, narrow = LIMITS[out.suffix.lower()]
    if fps is not None and fps > most:
        raise UsageError(f"--fps is {fps:g}; a {out.suffix} plays at most {most:g}")
    with Console().status("recording"):
        found = record(model, *episodes, fps=fps or usual, width=width or narrow)
        save_video(out, found.frames, found.fps)
    _tell(model, found.episodes)
    size = out.stat().st_size / 1e6
    print(f"recorded: {out} ({len(found.frames)} frames, {size:.2g} MB)")


def _tell(model: "Model", found: "Evaluation") -> None:
    title = f"{model.config.env_id}, {model.config.algo}"
    for number, (total, length) in enumerate(zip(*found, strict=True), start=1):
        print(f"{title}, episode {number}: return {total:.1f}, length {length}")
