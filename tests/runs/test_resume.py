"""A resumed run equals the uninterrupted one bit for bit; what may change, and who may write."""

import functools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from capo import CAPO, PPO, CheckpointCallback, EvalCallback
from capo.callbacks import follow
from capo.envs.gymnasium import GymnasiumEnv
from capo.errors import UsageError
from capo.rollout import RESTART_STEPS
from capo.runs.checkpoint import FOLDER, load, load_newest
from capo.runs.folder import RunFolder
from capo.runs.options import Options
from capo.runs.resume import clear, newest_run, reopen, restore, without_checkpoint
from capo.train import generations
from support.equality import assert_same_generation
from support.learners import BATCH, learner
from support.probes import ALGOS, Target, but_slow
from support.resuming import GENERATIONS, config_of, never, play
from support.run_folders import rows_of

pytestmark = [pytest.mark.xdist_group("resume"), pytest.mark.usefixtures("renew_often")]
CUTS = (1, 6, 8)
"""In the warmup, right after new episodes in all environments, and two generations later."""


@functools.cache
def whole(algo, backend, folder):
    """The uninterrupted run: its last generation, its rows."""
    path = folder / f"{algo}-{backend}"
    return play(config_of(algo, backend=backend), path, every=0), rows_of(path)


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
    assert_same_generation(play(config, tmp_path / "run", start=start), expected)
    assert rows_of(tmp_path / "run") == rows


SWITCHES = [
    {"outer_lr": 0.7, "adaptive_lr": 1e-4, "schedule": "trapezoid", "carry": "counter"},
    {"diversity": "batches", "experts": 2, "critic_batches": "all", "deviation": "newest"},
    {"action_noise": 0.5, "entropy_coef": 0.003, "entropy_fall": 0.5, "advantage_floor": 0.1},
]
ALL_SWITCHES = dict(pair for each in SWITCHES for pair in each.items())


@pytest.mark.parametrize(
    "changes",
    [
        ALL_SWITCHES,
        *(pytest.param(each, marks=pytest.mark.slow) for each in SWITCHES),
        pytest.param({"reuse": 3, "distill": "off"}, marks=pytest.mark.slow),
    ],
)
def test_switches_are_part_of_a_resumed_run(changes, tmp_path):
    config = config_of("capo", backend="gymnasium", **changes)
    expected = play(config, tmp_path / "whole", every=0)
    play(config, tmp_path / "run", until=8)
    start = reopen(tmp_path / "run", None, False, None)
    assert_same_generation(play(config, tmp_path / "run", start=start), expected)
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "whole")


def test_rows_after_the_checkpoint_are_written_again(run, base):
    assert len(rows_of(run)) == 7
    config = config_of("ppo", backend="gymnasium")
    play(config, run, start=reopen(run, None, False, None))
    assert rows_of(run) == whole("ppo", "gymnasium", base)[1]


def test_the_checkpoint_interval_does_not_change_a_run(run, base):
    expected, _ = whole("ppo", "gymnasium", base)
    found = reopen(run / FOLDER / "00000002", None, False, None)
    assert_same_generation(play(config_of("ppo", backend="gymnasium"), run, 3, found), expected)


def test_environments_are_renewed_at_an_interval():
    # The fixture's ninety-six steps are six generations; what decides a run is ten thousand.
    assert RESTART_STEPS == 10_000
    config = config_of("ppo", backend="gymnasium")
    played = [len(step.collector.played) for step in generations(config)]
    assert played == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_changes_are_listed_and_refused(run):
    config = load(run / FOLDER / "00000006").config
    other = config.replace(learning_rate=1e-3, gamma=0.5)
    with pytest.raises(UsageError, match=r"learning_rate 0.01 → 0.001, gamma 0.9 → 0.5.*override"):
        reopen(run, other, False, None)
    with pytest.raises(UsageError, match=r"num_envs hidden cannot change within a run"):
        reopen(run, config.replace(num_envs=4, hidden=(3,)), True, None)
    start = reopen(run, other, True, None)
    assert start.changed == {"learning_rate": [0.01, 1e-3], "gamma": [0.9, 0.5]}
    play(other, run, start=start, until=8)
    assert rows_of(run)[-1]["learning_rate"] == pytest.approx(1e-3 * (1 - 7 / GENERATIONS))
    (again,) = json.loads((run / "manifest.json").read_text())["resumed"]
    assert (again["generation"], again["changed"]["gamma"]) == (6, [0.9, 0.5])
    assert json.loads((run / "config.json").read_text())["gamma"] == 0.5


def test_reuse_can_be_turned_on_and_off(tmp_path):
    config, run = config_of("ppo", backend="gymnasium"), tmp_path / "run"
    play(config, run, until=2)
    for until, batches in ((4, 3), (6, 1), (8, 3)):
        config = config.replace(reuse=batches)
        play(config, run, start=reopen(run, config, True, None), until=until)
    assert load_newest(run).step.number == 7


def test_a_run_folder_has_one_writer(run):
    start = reopen(run, None, False, None)
    with pytest.raises(UsageError, match="in use by this process"):
        reopen(run, None, False, None)
    code = "import sys, pathlib, capo.storage.locks as l; l.Lock(pathlib.Path(sys.argv[1]))"
    other = [sys.executable, "-c", code, str(run)]
    done = subprocess.run(other, capture_output=True, text=True)
    assert f"{run} is in use by process {os.getpid()};" in done.stderr
    start.lock.release()
    assert subprocess.run(other).returncode == 0


class Drifting(Target):
    """The observation depends on the number of resets of all instances."""

    resets = 0

    def see(self):
        Drifting.resets += 1
        return np.full(1, np.sin(Drifting.resets), np.float32)


def test_environments_that_do_not_depend_on_their_seed_alone_are_reported(tmp_path):
    config = config_of("ppo", backend="auto", diagnostics=0)
    env = GymnasiumEnv(Drifting, 2, 0)
    run = RunFolder(tmp_path / "run", config, env.backend, Options(1))
    follow(generations(config, env), [run.record, lambda step, _: step.number < 1])
    run.finish("interrupted")
    start, said = reopen(tmp_path / "run", None, False, None), []
    step = restore(start, env, True, said.append)
    assert any("did not bring the environments back" in text for text in said)
    assert not np.array_equal(step.collector.obs, start.checkpoint.step.collector.obs)
    said.clear()
    assert restore(start, env, False, said.append).collector.played == ()
    assert said == ["the environments begin new episodes"]
    start.lock.release()


def test_resuming_from_an_earlier_checkpoint_deletes_later_ones(tmp_path):
    """Their rows of metrics.jsonl are deleted, and the run may be killed before it saves again."""
    config, run = config_of("ppo", backend="gymnasium"), tmp_path / "run"
    play(config, run, until=6)
    start = reopen(run / "checkpoints" / "00000004", None, False, None)
    play(config, run, every=0, start=start, until=5)
    again = reopen(run, None, False, never)
    assert again.checkpoint.step.number == 3
    play(config, run, start=again, until=6)
    assert [row["generation"] for row in rows_of(run)] == list(range(6))


def test_a_run_without_a_checkpoint_starts_over(tmp_path):
    config, run = config_of("ppo", backend="gymnasium"), tmp_path / "run"
    play(config, run, every=0, until=2)
    assert newest_run(run, config) is None
    clear(run)
    (aside,) = run.glob("metrics-*.jsonl")
    assert len(aside.read_text().splitlines()) == 2
    assert {path.name for path in run.iterdir()} == {".lock", aside.name}
    play(config, run, until=2)
    assert not without_checkpoint(run)
    assert newest_run(run, config) == run


def test_the_classes_resume(tmp_path):
    def callbacks(name):
        return [
            EvalCallback(every=2, episodes=3, best_path=tmp_path / name / "best.safetensors"),
            CheckpointCallback(tmp_path / name / "saved", every=1, keep=2),
        ]

    whole, watching = learner(), callbacks("whole")
    whole.learn(6 * BATCH, watching, progress_bar=False, run_dir=tmp_path / "whole")

    def stop(step, _):
        if step.number == 2:
            raise KeyboardInterrupt

    cut, before = learner(), callbacks("cut")
    with pytest.raises(KeyboardInterrupt):
        # The last to look: the generation counts as seen.
        run = {"run_dir": tmp_path / "cut", "checkpoint_every": 1}
        cut.learn(6 * BATCH, [*before, stop], progress_bar=False, **run)
    with pytest.raises(UsageError, match="is a ppo model; load it with PPO"):
        CAPO.resume(tmp_path / "cut", env=Target)
    again, after = PPO.resume(tmp_path / "cut", env=Target), callbacks("cut")
    assert again.num_timesteps == 2 * BATCH
    again.learn(callback=after, progress_bar=False)
    assert_same_generation(again._learner.last, whole._learner.last)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    assert after[0].results == watching[0].results
    assert after[0].best_return == watching[0].best_return > -math.inf
    assert [path.name for path in after[1].saved] == [path.name for path in watching[1].saved]
    with pytest.raises(UsageError, match="how many steps"):
        again.learn()
