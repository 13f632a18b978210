"""The driver of a run: the same for the command line and for Python."""

import json
import signal
import time

import pytest
from safetensors.numpy import load_file

from capo import PPO, Model, UsageError, evaluate
from capo.cli.main import main
from capo.errors import EnvError
from capo.runs.progress import BAR, fitting
from capo.storage.locks import is_held
from capo.update import _policy_program
from support.equality import assert_same_generation, same
from support.learners import BATCH, learner
from support.probes import Target
from support.run_folders import rows_of

SIZES = {"num_envs": 2, "num_steps": 16, "minibatches": 4, "epochs": 2, "diagnostics": 0}


def status_of(run):
    return json.loads((run / "manifest.json").read_text())["status"]


class Hanging(Target):
    """Hangs in every step while `hangs` is set."""

    hangs = False

    def step(self, action):
        if Hanging.hangs:
            time.sleep(3600)
        return super().step(action)


@pytest.fixture
def hang():
    """A callback that lets the environments hang after the third generation."""

    def after_third(step, _):
        Hanging.hangs = step.number == 2

    yield after_third
    Hanging.hangs = False


def test_the_command_and_the_class_leave_the_same_run(tmp_path):
    flags = [word for key, value in SIZES.items() for word in (flag(key), str(value))]
    words = ["train", "CartPole-v1", "--algo", "ppo", "--seed", "3", "-n", "128", "--hidden", "8"]
    words += ["--eval-episodes", "2", "--run-dir", str(tmp_path / "command")]
    assert main([*words, *flags]) == 0
    model = PPO("auto", "CartPole-v1", seed=3, hidden=(8,), **SIZES)
    model.learn(128, progress_bar=False, run_dir=tmp_path / "class", eval_episodes=2)
    command, ours = tmp_path / "command", tmp_path / "class"
    assert rows_of(command) == rows_of(ours)
    assert same(*(load_file(run / "model.safetensors") for run in (command, ours)))
    for name in ("config.json", "eval.json"):
        assert json.loads((command / name).read_text()) == json.loads((ours / name).read_text())
    left, right = ({path.name for path in run.iterdir()} for run in (command, ours))
    assert {name.split(".out")[0] for name in left} == {name.split(".out")[0] for name in right}


def flag(name):
    return "--" + name.replace("_", "-")


def test_a_time_out_in_the_final_evaluation_can_be_resumed(hang, tmp_path):
    whole = learner(env=Hanging).learn(3 * BATCH, progress_bar=False)
    model = learner(env=Hanging)
    options = {"progress_bar": False, "env_timeout": 0.5}
    with pytest.raises(EnvError, match=r"no answer within 0.5 s \(env_timeout\)"):
        model.learn(3 * BATCH, hang, run_dir=tmp_path / "run", **options)
    assert status_of(tmp_path / "run") == "failed"
    assert not (tmp_path / "run" / "eval.json").exists()
    Hanging.hangs = False
    again = PPO.resume(tmp_path / "run", env=Hanging).learn(**options)
    assert same(again.policy, whole.policy)
    assert status_of(tmp_path / "run") == "finished"
    result = json.loads((tmp_path / "run" / "eval.json").read_text())
    assert result["returns"] == whole.evaluate().returns


def test_a_time_out_in_replay_leaves_the_run_as_it_was(hang, tmp_path):
    whole = learner(env=Hanging).learn(6 * BATCH, progress_bar=False)
    run, options = tmp_path / "run", {"progress_bar": False, "env_timeout": 0.5}
    with pytest.raises(EnvError):
        learner(env=Hanging).learn(6 * BATCH, hang, run_dir=run, **options)
    before = (run / "metrics.jsonl").read_text(), (run / "manifest.json").read_text()
    model = PPO.resume(run, env=Hanging)
    assert Hanging.hangs
    with pytest.raises(EnvError, match=r"no answer within 0.5 s"):
        model.learn(**options)
    assert ((run / "metrics.jsonl").read_text(), (run / "manifest.json").read_text()) == before
    Hanging.hangs = False
    model = PPO.resume(run, env=Hanging).learn(**options)
    assert_same_generation(model._learner.last, whole._learner.last)
    assert [row["generation"] for row in rows_of(run)] == list(range(6))


def test_programs_are_compiled_before_the_first_step():
    """Also without a progress bar. The epochs are this test's own, so no other has compiled it."""
    sizes = [_policy_program._cache_size()]

    class Watching(Target):
        def step(self, action):
            sizes.append(_policy_program._cache_size())
            return super().step(action)

    learner(env=Watching, epochs=7).learn(2 * BATCH, progress_bar=False)
    before, *after = sizes
    assert set(after) == {before + 1}


def test_a_run_in_python_prints_nothing_and_leaves_signals_alone(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    handlers, seen = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)], []

    def look(*_):
        seen.extend(signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM))

    learner().learn(BATCH, look, progress_bar=False)
    assert seen == handlers
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == [], "nothing is recorded without run_dir"


def test_options_are_checked_before_anything_is_written(tmp_path):
    for wrong, said in (
        ({"eval_episodes": -1}, "eval_episodes is -1; it must be at least 0"),
        ({"env_timeout": -1.0}, "env_timeout is -1.0; it must be at least 0.001"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1; it must be at least 0"),
    ):
        with pytest.raises(UsageError, match=said):
            learner().learn(BATCH, run_dir=tmp_path / "run", progress_bar=False, **wrong)
    assert not (tmp_path / "run").exists()


def test_a_run_is_evaluated_in_training_keeps_the_best_and_stops(tmp_path):
    """The best policy is that of the best row, and its file evaluates to the same return."""
    run = tmp_path / "run"
    model = learner(env="CartPole-v1", hidden=(16,), learning_rate=3e-3, normalize_obs=False)
    every = {"eval_every": 2 * BATCH + 9, "eval_episodes": 4}
    model.learn(40 * BATCH, progress_bar=False, run_dir=run, stop_at=60.0, **every)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluated = {row["generation"]: row["eval/return"] for row in rows if "eval/return" in row}
    assert list(evaluated) == list(range(1, len(rows), 2)), "about every two batches"
    *before, last = evaluated.values()
    assert last >= 60 > max(before)
    assert model.num_timesteps == len(rows) * BATCH < 40 * BATCH
    best = Model.load(run / "best.safetensors")
    assert evaluate(best, 4).mean == last
    with pytest.raises(UsageError, match="eval_every evaluates on episodes"):
        model.learn(BATCH, eval_every=BATCH, eval_episodes=0)
    with pytest.raises(UsageError, match="EvalCallback needs environments of its own"):
        learner(env=Target(), num_envs=1, num_steps=64).learn(BATCH, **every)


def test_a_run_whose_options_are_refused_is_not_locked(tmp_path):
    """An environment that was made for it cannot evaluate beside it."""
    run, sizes = tmp_path / "run", {"num_envs": 1, "num_steps": 64}

    def stop(step, _):
        if step.number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner(env=Target(), **sizes).learn(4 * BATCH, stop, progress_bar=False, run_dir=run)
    with pytest.raises(UsageError, match="EvalCallback needs environments of its own"):
        PPO.resume(run, env=Target()).learn(eval_every=BATCH, progress_bar=False)
    assert not is_held(run)
    again = PPO.resume(run, env=Target()).learn(progress_bar=False, eval_episodes=0)
    assert again.num_timesteps == 4 * BATCH


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_live_line_is_one_line(width):
    """Less is told where less fits; the steps and the return stay."""
    parts = ["1.02k/11.3k steps", "return 22.0", "0:01 left", "7.95k steps/s", "KL 0.01", "x" * 60]
    line = fitting(parts, width - BAR - 1)
    assert len(line) <= width - BAR - 1
    assert line.startswith("1.02k/11.3k steps  return 22.0")
    assert ("KL" in line) == (width >= 120)
    assert fitting(["a long text"], 3) == "a long text"
