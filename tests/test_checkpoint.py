"""A run that goes on from a checkpoint is the run that was never interrupted, bit for bit."""

import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from capo import Config, checkpoint
from capo.adapters import encoded
from capo.callbacks import follow
from capo.checkpoint import FOLDER, KEPT, MANIFEST, STATE, Progress, found, load, newest, save
from capo.commands.resume import newest_run, only_begun
from capo.config import UsageError
from capo.envs import GymnasiumEnv, make
from capo.resuming import Resumed, reopen, take_up
from capo.rollout import RENEW_STEPS
from capo.runs import Recording, RunFolder, clear
from capo.tensors import named
from capo.train import generations
from faults.running import rows as rows_of
from probes import ALGOS, Target, but_slow, small

pytestmark = pytest.mark.xdist_group("checkpoint")
GENERATIONS = 14
CUTS = (1, 6, 8)
"""Within the warmup, where environments have just begun anew, two generations later."""
TASK = {"num_envs": 2, "total_steps": 32 * GENERATIONS, "warmup": 0.2, "epochs": 2}
STATS = {"normalize_obs": True, "normalize_reward": True}


@pytest.fixture(scope="module", autouse=True)
def _renew_often():
    """New episodes after every sixth generation of sixteen steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("capo.rollout.RENEW_STEPS", 96)
        yield


def config_of(algo, **changes) -> Config:
    env = {"env_id": "CartPole-v1", "diagnostics": 5 if algo == "capo" else 0}
    return small(algo, **TASK, **STATS).replace(**{**env, **changes})


def never(text):
    raise AssertionError(text)


def play(config, path, every=1, start: Resumed | None = None, until=GENERATIONS):
    """Trains in a folder, as the command does, and leaves it as a process that is killed would."""
    env = encoded(make(config.env_id, config.num_envs, config.seed, config.backend), config)
    step = take_up(start, env, True, never) if start else None
    run = RunFolder(path, config, env.backend, Recording(every), start)
    last = follow(generations(config, env, step), [run.see, lambda s, _: s.number + 1 < until])
    env.close()
    leave(run)
    return last


def leave(run):
    """What the system does for a process that is killed."""
    run._lock.release()
    run._metrics.close()
    for sink in run._sinks:
        sink.close("killed")


@functools.cache
def whole(algo, backend, folder):
    """The uninterrupted run: its last generation, its rows."""
    path = folder / f"{algo}-{backend}"
    return play(config_of(algo, backend=backend), path, every=0), rows_of(path)


def assert_same(first, second):
    """The same networks, moments, statistics, environments, recent episodes."""
    ours, theirs = (named((s.state, s.collector._replace(played=()))) for s in (first, second))
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert first.recent == second.recent
    assert first.number == second.number


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
@pytest.mark.parametrize("algo", but_slow(ALGOS, "ppo", "capo"))
@pytest.mark.parametrize("cut", but_slow(CUTS, 8))
def test_a_resumed_run_equals_the_uninterrupted_one(algo, backend, cut, base, tmp_path):
    if backend == "envpool":
        pytest.importorskip("envpool")
    expected, rows = whole(algo, backend, base)
    config = config_of(algo, backend=backend)
    play(config, tmp_path / "run", until=cut)
    start = reopen(tmp_path / "run", None, False, None)
    assert start.checkpoint.step.number == cut - 1
    assert_same(play(config, tmp_path / "run", start=start), expected)
    assert rows_of(tmp_path / "run") == rows


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run with checkpoints after 2, 4 and 6 generations that was killed after 7."""
    path = tmp_path_factory.mktemp("killed") / "run"
    play(config_of("ppo", backend="gymnasium"), path, every=2, until=7)
    return path


@pytest.fixture
def run(killed, tmp_path):
    return Path(shutil.copytree(killed, tmp_path / "run"))


def test_rows_after_the_checkpoint_are_written_again(run, base):
    assert len(rows_of(run)) == 7
    config = config_of("ppo", backend="gymnasium")
    play(config, run, start=reopen(run, None, False, None))
    assert rows_of(run) == whole("ppo", "gymnasium", base)[1]


def test_how_often_is_saved_does_not_change_a_run(run, base):
    expected, _ = whole("ppo", "gymnasium", base)
    found = reopen(run / FOLDER / "00000002", None, False, None)
    assert_same(play(config_of("ppo", backend="gymnasium"), run, 3, found), expected)


def test_environments_begin_anew_from_time_to_time():
    # The fixture's ninety-six steps are six generations; what decides a run is ten thousand.
    assert RENEW_STEPS == 10_000
    config = config_of("ppo", backend="gymnasium")
    played = [len(step.collector.played) for step in generations(config)]
    assert played == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_the_last_three_stay_and_a_future_that_did_not_come_goes(run):
    assert [path.name for path in found(run / FOLDER)] == ["00000002", "00000004", "00000006"]
    step = load(run / FOLDER / "00000004").step
    save(run / FOLDER, step._replace(number=4), "gymnasium", Progress(), [])
    assert [path.name for path in found(run / FOLDER)] == ["00000002", "00000004", "00000005"]
    assert KEPT == 3
    assert not list((run / FOLDER).glob(".*"))


def test_saving_twice_replaces(run):
    step = load(run / FOLDER / "00000006").step
    save(run / FOLDER, step, "elsewhere", Progress(5), [["Some", {"best": 1.5}]])
    again = load(run / FOLDER / "00000006")
    assert_same(again.step, step)
    assert (again.backend, again.progress.rows) == ("elsewhere", 5)
    assert again.callbacks == [["Some", {"best": 1.5}]]


@pytest.mark.parametrize("name", [MANIFEST, STATE])
def test_one_wrong_bit_is_refused_and_the_file_named(run, name):
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


def test_a_damaged_one_is_refused_or_passed_over(run):
    (run / FOLDER / "00000006" / STATE).write_bytes(b"")
    with pytest.raises(UsageError, match=r"00000006.*state.safetensors is damaged"):
        reopen(run, None, False, None)
    said = []
    start = reopen(run, None, False, said.append)
    start.close()
    assert start.checkpoint.step.number == 3
    assert len(said) == 1
    assert "00000006" in said[0]
    for path in found(run / FOLDER):
        (path / MANIFEST).unlink()
    with pytest.raises(UsageError, match="holds no whole checkpoint"):
        newest(run, said.append)


def edited(run, **changes):
    """The newest checkpoint with another manifest, sealed again as its writer would."""
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
        ({"observation_space": {"type": "os.system"}}, "is damaged or was edited"),
        ({"observation_space": {"type": "Discrete", "n": 10**12, "start": 0}}, "is damaged"),
        ({"progress": {"rows": 1}, "callbacks": None, "versions": None}, None),
    ],
)
def test_a_manifest_asks_only_for_what_it_may(run, changes, said):
    path = edited(run, **changes)
    if said is None:
        assert load(path).progress == Progress(1)
        return
    with pytest.raises(UsageError, match=re.escape(said)) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_link_is_no_file_of_a_checkpoint(run, tmp_path):
    file = run / FOLDER / "00000006" / STATE
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="no plain file"):
        load(file.parent)


def test_what_is_not_finite_is_not_saved(run):
    step = load(run / FOLDER / "00000006").step
    step.state.policy.net.weights[0][0, 0] = math.nan
    with pytest.raises(ValueError, match=r"policy.net.weights.0 holds what is not a finite number"):
        save(run / FOLDER, step._replace(number=8), "gymnasium", Progress(), [])
    assert [path.name for path in found(run / FOLDER)] == ["00000002", "00000004", "00000006"]


def test_changes_are_listed_and_refused(run):
    config = load(run / FOLDER / "00000006").config
    other = config.replace(learning_rate=1e-3, gamma=0.5)
    with pytest.raises(UsageError, match=r"--learning-rate 0.01 → 0.001, --gamma 0.9 → 0.5.*--ov"):
        reopen(run, other, False, None)
    with pytest.raises(UsageError, match=r"--num-envs --hidden cannot change within a run"):
        reopen(run, config.replace(num_envs=4, hidden=(3,)), True, None)
    start = reopen(run, other, True, None)
    assert start.changed == {"learning_rate": [0.01, 1e-3], "gamma": [0.9, 0.5]}
    play(other, run, start=start, until=8)
    assert rows_of(run)[-1]["learning_rate"] == pytest.approx(1e-3 * (1 - 7 / GENERATIONS))
    (again,) = json.loads((run / "manifest.json").read_text())["resumed"]
    assert (again["generation"], again["changed"]["gamma"]) == (6, [0.9, 0.5])
    assert json.loads((run / "config.json").read_text())["gamma"] == 0.5


def test_a_run_folder_has_one_writer(run):
    start = reopen(run, None, False, None)
    with pytest.raises(UsageError, match="in use by this process"):
        reopen(run, None, False, None)
    code = "import sys, pathlib, capo.locks as l; l.Lock(pathlib.Path(sys.argv[1]))"
    other = [sys.executable, "-c", code, str(run)]
    done = subprocess.run(other, capture_output=True, text=True)
    assert f"{run} is in use by process {os.getpid()};" in done.stderr
    start.close()
    assert subprocess.run(other).returncode == 0


class Drifting(Target):
    """What it shows depends on how often any of its kind was reset."""

    resets = 0

    def see(self):
        Drifting.resets += 1
        return np.full(1, np.sin(Drifting.resets), np.float32)


def test_environments_that_are_no_function_of_their_seed_are_told_of(tmp_path):
    config = config_of("ppo", backend="auto", diagnostics=0)
    env = GymnasiumEnv(Drifting, 2, 0)
    run = RunFolder(tmp_path / "run", config, env.backend, Recording(1))
    follow(generations(config, env), [run.see, lambda step, _: step.number < 1])
    run.finish("interrupted")
    start, said = reopen(tmp_path / "run", None, False, None), []
    step = take_up(start, env, True, said.append)
    assert any("did not come back to where they stood" in text for text in said)
    assert not np.array_equal(step.collector.obs, start.checkpoint.step.collector.obs)
    said.clear()
    assert take_up(start, env, False, said.append).collector.played == ()
    assert said == ["the environments begin new episodes"]
    start.close()


def test_a_run_that_goes_on_from_an_earlier_checkpoint_has_no_later_ones(tmp_path):
    """They count on rows of metrics.jsonl that are cut off; it may be killed before it saves."""
    config, run = config_of("ppo", backend="gymnasium"), tmp_path / "run"
    play(config, run, until=6)
    start = reopen(run / "checkpoints" / "00000004", None, False, None)
    play(config, run, every=0, start=start, until=5)
    again = reopen(run, None, False, never)
    assert again.checkpoint.step.number == 3
    play(config, run, start=again, until=6)
    assert [row["generation"] for row in rows_of(run)] == list(range(6))


def test_what_never_came_to_a_checkpoint_can_begin_anew(tmp_path):
    config, run = config_of("ppo", backend="gymnasium"), tmp_path / "run"
    play(config, run, every=0, until=2)
    assert newest_run(run, config) is None
    clear(run)
    (aside,) = run.glob("metrics-*.jsonl")
    assert len(aside.read_text().splitlines()) == 2
    assert {path.name for path in run.iterdir()} == {".lock", aside.name}
    play(config, run, until=2)
    assert not only_begun(run)
    assert newest_run(run, config) == run
