"""Checkpoint files: which are kept, and that damaged ones are refused."""

import json
import math
import re

import numpy as np
import pytest

from capo.errors import UsageError
from capo.runs import checkpoint
from capo.runs.checkpoint import (
    FOLDER,
    KEPT,
    MANIFEST,
    STATE,
    list_checkpoints,
    load,
    load_newest,
    save,
)
from capo.runs.manifest import Written
from capo.runs.resume import reopen
from support.equality import assert_same_generation

pytestmark = pytest.mark.xdist_group("checkpoint")


def names(run):
    return [path.name for path in list_checkpoints(run / FOLDER)]


def test_the_last_three_stay_and_later_ones_are_deleted(run):
    assert names(run) == ["00000002", "00000004", "00000006"]
    step = load(run / FOLDER / "00000004").step
    save(run / FOLDER, step._replace(number=4), "gymnasium", Written(), [])
    assert names(run) == ["00000002", "00000004", "00000005"]
    assert KEPT == 3
    assert not list((run / FOLDER).glob(".*"))


def test_saving_twice_replaces(run):
    step = load(run / FOLDER / "00000006").step
    save(run / FOLDER, step, "elsewhere", Written(5), [["Some", {"best": 1.5}]])
    again = load(run / FOLDER / "00000006")
    assert_same_generation(again.step, step)
    assert (again.backend, again.written.rows) == ("elsewhere", 5)
    assert again.callbacks == [["Some", {"best": 1.5}]]


@pytest.mark.parametrize("name", [MANIFEST, STATE])
def test_a_flipped_bit_is_an_error_that_names_the_file(run, name):
    file = run / FOLDER / "00000006" / name
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for bit in rng.choice(8 * len(content), 150, replace=False):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        file.write_bytes(wrong)
        with pytest.raises(UsageError, match=str(file)):
            load(file.parent)
    for size in rng.choice(len(content), 20, replace=False):
        file.write_bytes(content[:size])
        with pytest.raises(UsageError, match=str(file)):
            load(file.parent)
    file.write_bytes(content)
    load(file.parent)


def test_a_damaged_checkpoint_is_refused_or_skipped(run):
    (run / FOLDER / "00000006" / STATE).write_bytes(b"")
    with pytest.raises(UsageError, match=r"00000006.*state.safetensors is damaged"):
        reopen(run, None, False, None)
    said = []
    start = reopen(run, None, False, said.append)
    start.lock.release()
    assert start.checkpoint.step.number == 3
    assert len(said) == 1
    assert "00000006" in said[0]
    for path in list_checkpoints(run / FOLDER):
        (path / MANIFEST).unlink()
    with pytest.raises(UsageError, match="holds no whole checkpoint"):
        load_newest(run, said.append)


HUGE = {
    "env_id": "CartPole-v1", "num_envs": 10**6, "num_steps": 10**6, "total_steps": 10**12,
    "minibatches": 1, "reuse": 10**6,
}  # fmt: skip


def edited(run, **changes):
    """The newest checkpoint with a changed manifest and a valid checksum."""
    path = run / FOLDER / "00000006"
    manifest = json.loads((path / MANIFEST).read_text())
    del manifest["sha256"]
    (path / MANIFEST).write_bytes(checkpoint._sealed({**manifest, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 2}, "has schema 2, this version of capo reads up to 1"),
        ({"schema": "../1"}, "has schema ../1"),
        ({"format": "capo-model"}, "is not of a capo checkpoint"),
        ({"files": {"../state.safetensors": {"bytes": 1, "sha256": ""}}}, "its files are not"),
        ({"files": {"/etc/passwd": {}, STATE: {}}}, "its files are not"),
        ({"files": 3}, "is damaged or was edited"),
        ({"generation": "many"}, "is damaged or was edited"),
        ({"recent": {"returns": [], "lengths": [], "os": "system"}}, "is damaged or was edited"),
        ({"config": {"env_id": "CartPole-v1", "hidden": [10**9]}}, "is damaged or was edited"),
        ({"config": HUGE}, "is damaged or was edited"),
        ({"observation_space": {"type": "os.system"}}, "is damaged or was edited"),
        ({"observation_space": {"type": "Discrete", "n": 10**12, "start": 0}}, "is damaged"),
    ],
)
def test_an_edited_manifest_is_refused(run, changes, said):
    path = edited(run, **changes)
    with pytest.raises(UsageError, match=re.escape(said)) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


NOT_COUNTS = ["1", None, 1.5, -5, 10**30, True, [], {}]
NOT_NUMBERS = ["1", None, True, [], {}, 10**400]
NOT_NAMES = [None, 3, [], "", "x" * 101, "\x1b[31mred", "[/x]", "two\nlines", "ü"]
WRONG = {
    "generation": NOT_COUNTS,
    "reset_seed": [*NOT_COUNTS, 2**31],
    "devices": [*NOT_COUNTS, 0],
    "seconds": [*NOT_NUMBERS, -1.0],
    "backend": NOT_NAMES,
    "versions": [None, [], "jax", *({"jax": value} for value in NOT_NAMES[1:])],
    "callbacks": [None, {}, "ab", [1], [["Some"]], [["Some", {}, 3]], [[None, {}]]],
    "recent": [None, []],
    "progress": [None, []],
}
WRONG_PARTS = {
    ("progress", "rows"): NOT_COUNTS,
    ("progress", "bytes"): NOT_COUNTS,
    ("progress", "wall_seconds"): [*NOT_NUMBERS, -1.0],
    ("recent", "warming"): [None, 0, "yes"],
    ("recent", "returns"): [None, 1.0, *([value] for value in NOT_NUMBERS)],
    ("recent", "lengths"): [None, 1, *([value] for value in NOT_COUNTS)],
    ("recent", "rate_scale"): [*NOT_NUMBERS, -1.0],
    ("recent", "nonfinite"): NOT_COUNTS,
}


def test_every_value_of_a_manifest_is_checked(run):
    """A wrong type, a number out of range and text that controls a terminal: one line each."""
    path = run / FOLDER / "00000006"
    whole = json.loads((path / MANIFEST).read_text())
    changes = [{name: value} for name, values in WRONG.items() for value in values]
    changes += [
        {name: {**whole[name], part: value}}
        for (name, part), values in WRONG_PARTS.items()
        for value in values
    ]
    for change in changes:
        edited(run, **change)
        with pytest.raises(UsageError, match="is damaged or was edited") as error:
            load(path)
        assert str(error.value).isprintable(), change
    for name in WRONG:
        rest = {key: value for key, value in whole.items() if key not in (name, "sha256")}
        (path / MANIFEST).write_bytes(checkpoint._sealed(rest))
        with pytest.raises(UsageError, match="is damaged or was edited"):
            load(path)
    edited(run, **{name: whole[name] for name in WRONG})


def test_a_symbolic_link_is_refused(run, tmp_path):
    file = run / FOLDER / "00000006" / STATE
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="no plain file"):
        load(file.parent)


def test_a_non_finite_state_is_not_saved(run):
    step = load(run / FOLDER / "00000006").step
    step.state.policy.net.weights[0][0, 0] = math.nan
    with pytest.raises(ValueError, match=r"policy.net.weights.0 is not finite"):
        save(run / FOLDER, step._replace(number=8), "gymnasium", Written(), [])
    assert names(run) == ["00000002", "00000004", "00000006"]
