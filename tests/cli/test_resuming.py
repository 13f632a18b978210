"""The command `capo train --resume`."""

import json
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from capo import Model
from capo.cli.main import main
from capo.runs.checkpoint import FOLDER
from capo.runs.reading import read
from support.run_folders import abandon, rows_of

pytestmark = pytest.mark.xdist_group("cli-resume")
SIZES = ["--num-envs", "2", "--num-steps", "16", "--minibatches", "4", "--epochs", "2"]
SIZES += ["--hidden", "8", "--diagnostics", "0"]
TRAIN = ["train", "CartPole-v1", "--algo", "ppo", *SIZES, "-n", "192", "--eval-episodes", "2"]


class Killed(BaseException):
    """Stands for SIGKILL: no handler of exceptions catches it."""


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """Runs the command in a folder and kills it after a number of generations."""
    monkeypatch.chdir(tmp_path)

    def go(*words, after, train=TRAIN):
        from capo.runs.folder import RunFolder

        def record(self, step, info, original=RunFolder.record):
            original(self, step, info)
            if step.number + 1 == after:
                abandon(self)
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "record", record)
            patch.setattr(RunFolder, "finish", lambda *_: None)
            with pytest.raises(Killed):
                main([*train, *words])
        return tmp_path / "run"

    return go


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([*TRAIN, "--run-dir", str(folder)]) == 0
    return folder


def assert_ended_alike(first, second):
    assert rows_of(first) == rows_of(second)
    ours, theirs = (Model.load(run / "model.safetensors") for run in (first, second))
    for a, b in zip(ours.policy.net.weights, theirs.policy.net.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    results = [json.loads((run / "eval.json").read_text()) for run in (first, second)]
    assert results[0] == results[1]


@pytest.mark.slow
def test_the_number_of_workers_may_change(killed, tmp_path, capsys):
    words = ["--backend", "gymnasium", "--workers"]
    assert main([*TRAIN, *words, "2", "--run-dir", "whole"]) == 0
    assert "CartPole-v1 on gymnasium in 2 processes" in capsys.readouterr().out
    run = killed(*words, "1", "--run-dir", "run", "--checkpoint-every", "2", after=3)
    assert main([*TRAIN, *words, "0", "--run-dir", "run", "--resume", "auto"]) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1 on gymnasium, obs" in said
    assert "begin new episodes" not in said
    assert json.loads((run / "config.json").read_text())["workers"] == 0
    assert_ended_alike(run, tmp_path / "whole")


def test_a_killed_run_continues_and_ends_as_if_uninterrupted(killed, uninterrupted, capsys):
    run = killed("--run-dir", "run", "--checkpoint-every", "2", after=3)
    assert read(run).status == "killed"
    capsys.readouterr()
    assert main(["train", "--resume", "run", "--eval-episodes", "2"]) == 0
    said = capsys.readouterr().out
    assert "resuming from run/checkpoints/00000002" in said
    assert "next:       capo eval run" in said
    assert_ended_alike(run, uninterrupted)
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert [again["generation"] for again in manifest["resumed"]] == [2]


def test_the_same_command_starts_and_resumes(killed, uninterrupted, capsys):
    always = ["--run-dir", "run", "--resume", "auto", "--checkpoint-every", "1"]
    killed(*always, after=2)
    assert "there is no run to resume; a new one begins" in capsys.readouterr().out
    run = killed(*always, after=4)
    assert "resuming from run/checkpoints/00000002" in capsys.readouterr().out
    (run / FOLDER / "00000004" / "manifest.json").write_text("{}")
    assert main([*TRAIN, *always]) == 0
    said = capsys.readouterr().out
    assert "00000004/manifest.json is damaged" in said
    assert "resuming from run/checkpoints/00000003" in said
    assert_ended_alike(run, uninterrupted)
    assert main([*TRAIN, *always]) == 0, "once more than needed is no mistake"
    assert "run is finished: 6 of 6 generations" in capsys.readouterr().out


def test_auto_resumes_the_newest_run_that_matches_the_arguments(killed, monkeypatch, capsys):
    for seed in ("1", "2"):
        killed("--run-dir", f"runs/{seed}", "--checkpoint-every", "1", "--seed", seed, after=1)
    capsys.readouterr()
    shutil.copytree("runs/2", "runs/damaged")
    Path("runs/damaged/manifest.json").write_text("{")
    assert main([*TRAIN, "--seed", "1", "--resume", "auto"]) == 0
    assert "resuming from runs/1/checkpoints/00000001" in capsys.readouterr().out
    assert main(["train", "--resume", "auto"]) == 0
    assert "resuming from runs/2/checkpoints/00000001" in capsys.readouterr().out
    assert main(["train", "--resume", "auto"]) == 2


def test_changed_settings_are_listed(killed, capsys):
    killed("--preset", "default", "--run-dir", "run", "--checkpoint-every", "1", after=1)
    words = ["train", "--resume", "run", "--learning-rate", "0.1", "--clip", "0.3"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said == (
        "capo: run has another configuration: --learning-rate 0.0003 → 0.1, --clip 0.2 → 0.3; "
        "leave that out, or add --override\n"
    )
    assert main([*words, "--override", "--eval-episodes", "0"]) == 0
    assert read_config("run")["clip"] == 0.3


def read_config(folder):
    return json.loads((Path(folder) / "config.json").read_text())


def test_a_finished_run_continues_only_with_override(uninterrupted, tmp_path, capsys):
    run = shutil.copytree(uninterrupted, tmp_path / "run")
    assert main(["train", "--resume", str(run)]) == 2
    assert "is finished: 6 of 6 generations" in capsys.readouterr().err
    more = ["train", "--resume", str(run), "-n", "320", "--override", "--eval-episodes", "0"]
    assert main(more) == 0
    assert len(rows_of(run)) == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume", "nowhere"], "there is no run nowhere to resume"),
        (["--resume", "other", "--run-dir", "run"], "there is no run other to resume"),
        ([], "which environment? write it after the verb: capo train Hopper-v4"),
    ],
)
def test_arguments_without_a_run_to_resume(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_does_not_import_a_module(killed, tmp_path, monkeypatch, capsys):
    (tmp_path / "custom.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('Ours-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = [word.replace("CartPole-v1", "custom:Ours-v0") for word in TRAIN]
    run = killed("--run-dir", "run", "--checkpoint-every", "1", after=1, train=words)
    del sys.modules["custom"], gym.registry["Ours-v0"]
    assert main(["train", "--resume", str(run)]) == 2
    assert "custom" in capsys.readouterr().err
    assert "custom" not in sys.modules
    assert main(["train", "custom:Ours-v0", "--resume", str(run), "--eval-episodes", "0"]) == 0
