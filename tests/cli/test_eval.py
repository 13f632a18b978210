"""Commands that read a model: `capo eval`, and which modules and tasks it accepts."""

import json
import sys

import gymnasium as gym
import pytest

from capo.cli.main import main
from support.commands import TINY

pytestmark = pytest.mark.xdist_group("cli")  # one process, so that `finished` trains once


def said(capsys, *words):
    """What a command prints, in this process."""
    capsys.readouterr()
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_eval_agrees_with_the_training_run(finished, capsys, monkeypatch):
    """The run was trained in a process of its own."""
    folder, _ = finished
    monkeypatch.chdir(folder)
    trained = json.loads((folder / "run" / "eval.json").read_text())
    assert json.loads(said(capsys, "eval", "run", "--json"))["returns"] == trained["returns"]
    text = said(capsys, "eval", "run/model.safetensors", "--episodes", "1")
    assert text.startswith("CartPole-v1, capo: return ")
    assert "over 1 episode, length" in text


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


def test_several_runs_and_checkpoints_are_a_table(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    saved = sorted(str(path) for path in finished[0].glob("run/checkpoints/0*"))
    first, *_, last = [path[len(str(finished[0])) + 1 :] for path in saved]
    head, *lines = said(capsys, "eval", "run", first, last, "--episodes", "3").splitlines()
    assert head.split() == ["run", "task", "method", "seed", "return", "length"]
    assert [line.split()[:4] for line in lines] == [
        [name, "CartPole-v1", "capo", "3"] for name in ("run", first, last)
    ]
    listed = json.loads(said(capsys, "eval", "run", first, last, "--json"))
    assert [each["run"] for each in listed] == ["run", first, last]
    assert listed[0]["returns"] == listed[2]["returns"] != listed[1]["returns"]
    assert main(["eval"]) == 2
    assert "name a run folder or a model file" in capsys.readouterr().err


def test_actions_are_sampled_and_episodes_cut_if_asked(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    mode, drawn, cut = (
        json.loads(said(capsys, "eval", "run", "--json", *more))
        for more in ((), ("--stochastic",), ("--max-steps", "5"))
    )
    assert mode["returns"] != drawn["returns"]
    assert (mode["cut"], cut["cut"], cut["lengths"]) == (0, 20, [5] * 20)


def test_the_best_policy_is_one_that_was_kept(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    assert main(["eval", "run", "--best"]) == 2
    assert "holds no best.safetensors; a run with --eval-every" in capsys.readouterr().err
    words = ["train", "CartPole-v1", "--algo", "ppo", *TINY, "--run-dir", "watched"]
    assert main([*words, "--eval-every", "128", "--eval-episodes", "2"]) == 0
    assert "evaluated " in capsys.readouterr().out
    assert "over 5 episodes" in said(capsys, "eval", "watched", "--best", "--episodes", "5")
