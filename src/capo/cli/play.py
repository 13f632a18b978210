"""capo play."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.cli.arguments import RunPath, TaskOptions, check_seed, load_model
from capo.errors import UsageError, check_least

if TYPE_CHECKING:
    from capo.evaluation import Evaluation
    from capo.model import Model

LIMITS = {".gif": (25.0, 50.0, 320), ".mp4": (60.0, math.inf, None)}
"""By type of file: default and maximum frames a second, default width in pixels."""


def play(
    run: RunPath,
    episodes: int = 1,
    seed: int | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    fps: float | None = None,
    width: int | None = None,
    max_steps: int = 1000,
    stochastic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    task: tyro.conf.OmitArgPrefixes[TaskOptions] = TaskOptions(),  # noqa: B008 (frozen)
) -> int:
    """Watch a trained policy in a window, or record it as a GIF or MP4.

    Example: capo play runs/Hopper-v4__capo__1__* --out hopper.gif

    Args:
        run: A run folder or a model file.
        episodes: Number of episodes.
        seed: Seed of the episodes; default: derived from the seed of the run.
        out: Record to this .gif or .mp4; default: a window, or play.gif without a display.
        fps: Maximum frames a second of the file, at real speed; default 25 (.mp4: 60).
        width: Maximum width of the file in pixels; default 320 (.mp4: as rendered).
        max_steps: End an episode after this many steps.
        stochastic: Sample actions from the policy instead of the most likely ones.
        task: What is played.
    """
    check_seed(seed)
    _check(episodes, fps, width, max_steps)
    from capo.export.play import watch
    from capo.export.render import headless
    from capo.runs.folder import model_file

    model, deterministic = load_model(run, task), not stochastic
    if out is None and headless():
        file = model_file(run)
        out = run / "play.gif" if file.parent == run else file.with_suffix(".gif")
    if out is not None:
        _record(out, fps, width, model, episodes, seed, max_steps, deterministic)
    elif fps is not None or width is not None:
        raise UsageError("--fps and --width need a recording; add --out play.gif")
    else:
        _print_episodes(model, watch(model, episodes, seed, max_steps, deterministic))
    return 0


def _check(episodes: int, fps: float | None, width: int | None, max_steps: int) -> None:
    for name, value, least in (
        ("episodes", episodes, 1),
        ("width", width, 16),
        ("max_steps", max_steps, 1),
    ):
        if value is not None:
            check_least(name, value, least)
    if fps is not None and not 0 < fps < math.inf:
        raise UsageError(f"--fps is {fps}; it must be above 0")


def _record(out: Path, fps: float | None, width: int | None, model: "Model", *episodes) -> None:
    from rich.console import Console

    from capo.export.play import play_episodes
    from capo.export.video import check_video, save_video
    from capo.storage.files import check_writable

    check_video(out)
    check_writable(out.parent)
    usual, most, default_width = LIMITS[out.suffix.lower()]
    if fps is not None and fps > most:
        raise UsageError(f"--fps is {fps:g}; a {out.suffix} plays at most {most:g}")
    with Console().status("recording"):
        recorded = play_episodes(model, *episodes, fps=fps or usual, width=width or default_width)
        save_video(out, recorded.frames, recorded.fps)
    _print_episodes(model, recorded.episodes)
    size = out.stat().st_size / 1e6
    print(f"recorded: {out} ({len(recorded.frames)} frames, {size:.2g} MB)")


def _print_episodes(model: "Model", result: "Evaluation") -> None:
    title = f"{model.config.env_id}, {model.config.algo}"
    played = zip(result.returns, result.lengths, strict=True)
    for number, (total, length) in enumerate(played, start=1):
        print(f"{title}, episode {number}: return {total:.1f}, length {length}")
