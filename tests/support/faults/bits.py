"""A flipped bit or a cut anywhere in a checkpoint or a model."""

import shutil
from pathlib import Path

import numpy as np

from capo.errors import UsageError
from capo.model import Model
from capo.runs.checkpoint import FOLDER, list_checkpoints, load, load_newest
from support.faults.running import TINY, finish, running

COMMANDS = 100
"""One in so many injections is also tried with the command."""


def damage(work: Path, rng: np.random.Generator, times: int) -> int:
    """Damages a file of a small run, checks that it is refused, and restores it; `times` times."""
    run = work / "run"
    words = ["train", "CartPole-v1", "--algo", "ppo", *TINY, "--run-dir", str(run)]
    finish([*words, "--checkpoint-every", "1"], work)
    before, last = list_checkpoints(run / FOLDER)[-2:]
    files = sorted(last.iterdir())
    files.append(run / "model.safetensors")
    for index in range(times):
        file = files[rng.integers(len(files))]
        whole = file.read_bytes()
        what = _spoil(file, whole, rng)
        if file.parent == run:
            _assert_refused(file, what, lambda: Model.load(run / "model.safetensors"))
        else:
            _assert_refused(file, what, lambda: load(last))
            _assert_refused(file, what, lambda: load_newest(run))
            _assert_passed_over(run, last, before)
            if index % COMMANDS == 0:
                _assert_command_passes_over(work, run, words, last, before)
        file.write_bytes(whole)
    assert load_newest(run).path == last
    Model.load(run / "model.safetensors")
    return times


def _spoil(file: Path, whole: bytes, rng: np.random.Generator) -> str:
    """Flips one bit or truncates the file; returns a description."""
    at = int(rng.integers(len(whole)))
    if rng.random() < 0.25:
        file.write_bytes(whole[:at])
        return f"{file.name} cut after {at} bytes"
    bit = int(rng.integers(8))
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    return f"bit {bit} of byte {at} of {file.name} flipped"


def _assert_refused(file: Path, what: str, read) -> None:
    try:
        read()
    except UsageError as error:
        assert str(file) in str(error), f"{what}: refused, but without its name: {error}"
        return
    raise AssertionError(f"{what}: it was read all the same")


def _assert_passed_over(run: Path, last: Path, before: Path) -> None:
    said: list[str] = []
    assert load_newest(run, said.append).path == before
    assert len(said) == 1
    assert str(last) in said[0]


def _assert_command_passes_over(
    work: Path, run: Path, words: list[str], last: Path, before: Path
) -> None:
    """On a copy: `--resume auto` names the skipped checkpoint, and the run finishes."""
    copy = work / "copy"
    shutil.copytree(run, copy)
    # As if the run had been killed before its end.
    (copy / "manifest.json").write_text(
        (copy / "manifest.json").read_text().replace('"finished"', '"running"')
    )
    again = [str(copy) if word == str(run) else word for word in words]
    with running([*again, "--resume", "auto"], work) as command:
        assert command.ended() == 0, command.said
        said = command.out.read_text()
    assert str(copy / FOLDER / last.name) in said
    assert "trying the checkpoint before it" in said
    assert f"resuming from {copy / FOLDER / before.name}" in said
    assert load_newest(copy).path.name == last.name
    shutil.rmtree(copy)
