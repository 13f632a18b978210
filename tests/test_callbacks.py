"""Callbacks see every generation, may end the run, and lose nothing if they raise."""

import json
import math

import pytest

from capo import CheckpointCallback, EvalCallback, Evaluation, Model, StopOnReturn, UsageError
from support.equality import same
from support.learners import BATCH, learner
from support.probes import Target


def test_a_callback_sees_every_generation_and_may_stop():
    seen = []

    def look(step, info):
        seen.append((step.number, info["steps"], step.model.config.algo))
        return step.number < 1

    model = learner()
    model.learn(5 * BATCH, callback=look, progress_bar=False)
    assert seen == [(0, BATCH, "ppo"), (1, 2 * BATCH, "ppo")]
    assert model.num_timesteps == 2 * BATCH


def test_stop_on_return():
    model = learner()
    model.learn(9 * BATCH, callback=StopOnReturn(-math.inf), progress_bar=False)
    assert model.num_timesteps == BATCH
    model.learn(2 * BATCH, callback=StopOnReturn(math.inf), progress_bar=False)
    assert model.num_timesteps == 3 * BATCH


def test_the_best_model_is_kept(tmp_path):
    watch = EvalCallback(every=2, episodes=5, best_path=tmp_path / "best" / "m.safetensors")
    rows = []
    model = learner().learn(
        6 * BATCH, callback=[watch, lambda _, info: rows.append(info)], progress_bar=False
    )
    assert [steps for steps, _ in watch.results] == [2 * BATCH, 4 * BATCH, 6 * BATCH]
    means = [result.mean for _, result in watch.results]
    assert [row["eval/return"] for row in rows if "eval/return" in row] == means
    best = Model.load(tmp_path / "best" / "m.safetensors")
    assert same(best.policy, watch.best.policy)
    assert watch.best_return == max(means)
    again = model.evaluate(5)
    assert again == watch.results[-1][1], "the same episodes each time"


def test_an_evaluation_needs_environments_of_its_own():
    model = learner(env=Target(), num_envs=1, num_steps=64)
    with pytest.raises(UsageError, match=r"EvalCallback needs environments of its own"):
        model.learn(BATCH, callback=EvalCallback(), progress_bar=False)


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    saving = CheckpointCallback(tmp_path, every=2, keep=2)
    model = learner().learn(7 * BATCH, callback=saving, progress_bar=False)
    names = [f"model_{n * BATCH}.safetensors" for n in (6, 7)]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert same(Model.load(tmp_path / names[1]).policy, model.policy)


def test_a_callbacks_error_ends_the_run_with_everything_saved(tmp_path):
    saving = CheckpointCallback(tmp_path / "saved", every=1)

    def fail(step, info):
        if step.number == 2:
            raise RuntimeError("out of cheese")

    model = learner()
    with pytest.raises(RuntimeError, match="out of cheese"):
        model.learn(
            9 * BATCH, callback=[fail, saving], progress_bar=False, run_dir=tmp_path / "run"
        )
    assert model.num_timesteps == 3 * BATCH
    before, after = (
        Model.load(tmp_path / "saved" / f"model_{done * BATCH}.safetensors") for done in (2, 3)
    )
    assert same(after.policy, model.policy)
    # The folder holds the last generation that every callback has seen.
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    assert same(Model.load(tmp_path / "run/model.safetensors").policy, before.policy)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "failed"
    model.learn(BATCH, progress_bar=False)
    assert model.num_timesteps == 4 * BATCH


def test_the_evaluations_of_a_callback_survive_a_resume():
    before, after = EvalCallback(best_path=None), EvalCallback(best_path=None)
    before.results = [(64, Evaluation(returns=[1.5, 2.0], lengths=[3, 9], cut=1))]
    after.restore(json.loads(json.dumps(before.state())))
    assert after.results == before.results


def test_arguments_of_stable_baselines3(tmp_path):
    """Frequencies are in steps of each environment: 16 in a generation here."""
    watch = EvalCallback(
        Target, eval_freq=32, n_eval_episodes=3, best_model_save_path=tmp_path, verbose=0
    )
    saving = CheckpointCallback(save_freq=48, save_path=tmp_path / "all", name_prefix="rl")
    learner().learn(6 * BATCH, callback=[watch, saving], progress_bar=False)
    assert [steps for steps, _ in watch.results] == [2 * BATCH, 4 * BATCH, 6 * BATCH]
    assert len(watch.results[0][1].returns) == 3
    assert (tmp_path / "best_model.safetensors").is_file()
    names = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert names == ["rl_192.safetensors", "rl_384.safetensors"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EvalCallback(5), r"the first argument is env; write EvalCallback\(every=5\)"),
        (lambda: EvalCallback(log_path="a"), "EvalCallback has no log_path; it has env, every"),
        (lambda: CheckpointCallback(), "where are the models to be saved"),
        (lambda: CheckpointCallback("a", save_vecnormalize=True), "has no save_vecnormalize"),
    ],
)
def test_wrong_arguments_of_callbacks(make, said):
    with pytest.raises(UsageError, match=said):
        make()
