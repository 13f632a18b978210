"""SIGKILL before, within or after each system call of saving a checkpoint."""

import io
import os
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from capo.model import Model
from capo.runs.checkpoint import FOLDER, Checkpoint, list_checkpoints, load, load_newest, save
from capo.storage.files import restore_folders
from capo.storage.tensors import named_leaves
from support.faults.running import TINY, finish

CALLS = ("mkdir", "open", "fsync", "rename", "replace", "unlink", "rmdir")
WAIT = 60.0


def failpoints(work: Path, rng: np.random.Generator, times: int) -> int:
    """Kills saving at `times` points; afterwards the old or the new checkpoint loads."""
    run = work / "run"
    words = ["train", "CartPole-v1", "--algo", "ppo", *TINY, "--run-dir", str(run)]
    finish([*words, "--checkpoint-every", "1"], work)
    share = (times + 1) // 2
    for scene in (_replaced, _later):
        old, new = scene(run, work / "scene")
        count = _points(old, new, work / "count")
        assert count >= 24, f"only {count} points in a save"
        # Spread over all of them, beginning anywhere.
        for at in np.linspace(0, count, share, endpoint=False) + rng.integers(count):
            _try(old, new, work / "try", int(at) % count)
    return 2 * share


def _replaced(run: Path, scene: Path) -> tuple[Path, Checkpoint]:
    """Saves the last checkpoint again under its name, with other content."""
    _copy(run, scene)
    *_, before, last = list_checkpoints(scene / FOLDER)
    new = load(before)
    return scene, new._replace(step=new.step._replace(number=int(last.name) - 1))


def _later(run: Path, scene: Path) -> tuple[Path, Checkpoint]:
    """Saves one more, so that the oldest is deleted."""
    _copy(run, scene)
    new = load_newest(scene)
    return scene, new._replace(step=new.step._replace(number=new.step.number + 1))


def _copy(run: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run, folder)


def _save(folder: Path, new: Checkpoint) -> None:
    """As `RunFolder.checkpoint` does."""
    save(folder / FOLDER, new.step, new.backend, new.written, new.callbacks)
    new.step.model.save(folder / "model.safetensors")


def _points(scene: Path, new: Checkpoint, folder: Path) -> int:
    """The number of points of a complete save."""
    _copy(scene, folder)
    mine, theirs = os.pipe()

    def count() -> None:
        points = _counted(None)
        _save(folder, new)
        os.write(theirs, str(points()).encode())

    assert _forked(count) == 0
    found = int(os.read(mine, 16))
    os.close(mine)
    os.close(theirs)
    return found


def _try(scene: Path, new: Checkpoint, folder: Path, point: int) -> None:
    _copy(scene, folder)
    before, after = _content(load_newest(scene)), _content(new)
    models = [_arrays(load_newest(scene).step.model), _arrays(new.step.model)]

    def cut_short() -> None:
        _counted(point)
        _save(folder, new)

    where = f"killed at point {point} of {scene.name}"
    assert _forked(cut_short) == -signal.SIGKILL, f"{where}: it was not killed"
    restore_folders(folder / FOLDER)
    assert _content(load_newest(folder)) in (before, after), f"{where}: neither the old nor the new"
    for path in list_checkpoints(folder / FOLDER):
        load(path)
    assert _arrays(Model.load(folder / "model.safetensors")) in models, f"{where}: another model"
    _save(folder, new)
    assert _content(load_newest(folder)) == after, f"{where}: the next save is not the newest"
    left = [path.name for path in (folder / FOLDER).iterdir() if not path.name.isdigit()]
    assert not left, f"{where}: {left} stayed after the next save"
    assert len(list_checkpoints(folder / FOLDER)) == 3, (
        f"{where}: not three checkpoints after the next save"
    )


def _content(found: Checkpoint) -> tuple[int, str]:
    return found.step.number, _arrays((found.step.state, found.step.collector._replace(played=())))


def _arrays(tree: Any) -> str:
    if isinstance(tree, Model):
        tree = (tree.policy, tree.critic, tree.obs_stats, tree.return_stats)
    return repr([(name, np.asarray(x).tobytes()) for name, x in named_leaves(tree).items()])


def _forked(call: Callable[[], None]) -> int:
    """Calls a function in a forked process; returns its exit code, or minus the signal."""
    with warnings.catch_warnings():
        # JAX has threads, but nothing is computed in the copy.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"a save did not end within {WAIT:g} s")


def _counted(last: int | None) -> Callable[[], int]:
    """Counts the points from now on, and kills the process at point `last`."""
    passed = 0

    def point() -> None:
        nonlocal passed
        if passed == last:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1

    def around(call: Callable) -> Callable:
        def counted(*args: Any, **kwargs: Any) -> Any:
            point()
            out = call(*args, **kwargs)
            point()
            return out

        return counted

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if "w" not in mode:
            return real_open(file, mode, *args, **kwargs)
        return _Halved(around(real_open)(file, mode, *args, **kwargs), point)

    real_open = io.open
    for name in CALLS:
        setattr(os, name, around(getattr(os, name)))
    io.open = opened
    return lambda: passed


class _Halved:
    """A file whose writes can be interrupted in the middle."""

    def __init__(self, file: Any, point: Callable[[], None]):
        self._file, self._point = file, point

    def write(self, content: bytes) -> None:
        half = len(content) // 2
        self._point()
        self._file.write(content[:half])
        self._file.flush()
        self._point()
        self._file.write(content[half:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_Halved":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()
        self._point()
