"""Commands that read a model: `capo eval`, and which modules and tasks it accepts."""

import json
import sys

import gymnasium as gym
import pytest

from capo import Model
from capo.cli.main import main
from capo.runs.folder import MODEL_EMA
from support.commands import TINY, capo
from support.equality import same

pytestmark = pytest.mark.xdist_group("cli")  # one process, so that `finished` trains once


def test_eval_agrees_with_the_training_run(finished):
    folder, _ = finished
    trained = json.loads((folder / "run" / "eval.json").read_text())
    done = capo("eval", "run", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["returns"] == trained["returns"]
    text = capo("eval", "run/model.safetensors", "--episodes", "1", cwd=folder).stdout
    assert text.startswith("CartPole-v1, capo: return ")
    assert "over 1 episode, length" in text


def test_the_average_is_saved_and_evaluated_beside_the_last_policy(tmp_path):
    words = ["CartPole-v1", "--algo", "ppo", *TINY, "--ema", "0.5", "--run-dir", "run"]
    trained = capo("train", *words, "--eval-episodes", "3", cwd=tmp_path)
    assert "\nevaluation of the average: return " in trained.stdout, trained.stderr
    run = tmp_path / "run"
    last, average = (Model.load(run / name) for name in ("model.safetensors", MODEL_EMA))
    assert not same(last.policy, average.policy)
    assert same((last.critic, last.obs_stats), (average.critic, average.obs_stats))
    done = capo("eval", "run", "--ema", "--episodes", "3", "--json", cwd=tmp_path)
    expected = json.loads((run / "eval-ema.json").read_text())["returns"]
    assert json.loads(done.stdout)["returns"] == expected
    text = capo("eval", "run", "--ema", "--episodes", "1", cwd=tmp_path).stdout
    assert text.startswith("CartPole-v1, ppo, average over generations: return ")


def test_a_run_without_an_average_has_none_to_evaluate(finished, capsys):
    run = finished[0] / "run"
    assert main(["eval", str(run), "--ema"]) == 2
    said = f"capo: {run} holds no {MODEL_EMA}; was it trained with --ema?\n"
    assert capsys.readouterr().err == said
    file = run / "model.safetensors"
    assert main(["eval", str(file), "--ema"]) == 2
    assert capsys.readouterr().err == f"capo: {file} is a file; --ema needs a run folder\n"


OWN_TASK = """
import gymnasium as gym
from support.probes import Target
gym.register("Mine-v0", Target)
"""


def test_only_an_env_argument_imports_a_module(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_task.py").write_text(OWN_TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["train", "own_task:Mine-v0", "--algo", "ppo", *TINY, "--run-dir", "run"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].endswith("capo eval run --episodes 100 --env own_task:Mine-v0")
    for command in ("eval run", "play run", "diagnose run"):
        monkeypatch.delitem(sys.modules, "own_task", raising=False)
        assert main(command.split()) == 2
        found = capsys.readouterr().err
        assert found.startswith("capo: run/model.safetensors: the task 'own_task:Mine-v0' needs")
        assert "--env own_task:Mine-v0" in found
        assert "own_task" not in sys.modules
    gym.registry.pop("Mine-v0")
    assert main(["eval", "run", "--env", "own_task:Mine-v0", "--episodes", "2"]) == 0
    assert "own_task:Mine-v0, ppo: return" in capsys.readouterr().out
    gym.registry.pop("Mine-v0")


def test_a_task_with_other_spaces_is_refused(finished, capsys):
    run = finished[0] / "run"
    for words in (["eval"], ["diagnose", "--batches", "1"]):
        assert main([*words[:1], str(run), *words[1:], "--env", "Pendulum-v1"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"{run}: the model does not fit Pendulum-v1: the observation space" in said


def test_a_stable_baselines3_model_needs_trust(tmp_path, capsys):
    trap = tmp_path / "model.zip"
    trap.write_bytes(b"not even a zip")
    assert main(["diagnose", str(trap), "--env", "CartPole-v1"]) == 2
    assert "unpickling, which can run any code" in capsys.readouterr().err
    assert main(["diagnose", str(trap), "--trust"]) == 2
    assert "does not name its environment; add --env" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [trap]
