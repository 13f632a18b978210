"""The commands as a person runs them."""

import json
import os
import platform
import pty
import re
import shlex
import shutil
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from capo.cli import _one_line, main
from capo.commands import COMMANDS
from capo.screen import example, summary

pytestmark = pytest.mark.xdist_group("cli")  # one worker, one run
TINY = ["-n", "512", "--num-envs", "2", "--num-steps", "64", "--minibatches", "4", "--hidden", "8"]


def capo(*words, cwd):
    command = [sys.executable, "-m", "capo", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    done = capo("train", "CartPole-v1", *TINY, "--run-dir", "run", "--seed", "3", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_what_a_person_sees(finished):
    _, done = finished
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert lines[0].startswith("capo 0.1.0 jax ")
    assert "CartPole-v1" in lines[0]
    assert "K=4 E=10, 2×64 samples × 4 generations" in lines[0]
    assert lines[1].startswith("compiling took ")
    assert all("steps/s" in line and "left" in line and "KL" in line for line in lines[2:6])
    assert all(re.search(r"signal \d+% of it", line) for line in lines[2:6])
    assert lines[6].startswith("Theorem 1 in 3 generations with several experts: the pool broke it")
    assert lines[7].startswith("evaluation: return ")
    assert lines[8].startswith("run folder: run/")
    assert lines[9].split() == ["next:", "capo", "eval", "run", "--episodes", "100"]


def test_what_is_left(finished):
    run = finished[0] / "run"
    names = {p.name.replace(platform.node(), "") for p in run.iterdir()}
    (events,) = (name for name in names if name.startswith("events.out.tfevents."))
    assert names == {
        events, "config.json", "manifest.json", "metrics.jsonl", "model.safetensors", "eval.json",
        "summary.png", "checkpoints", ".lock",
    }  # fmt: skip
    config = json.loads((run / "config.json").read_text())
    assert (config["env_id"], config["seed"], config["carry"]) == ("CartPole-v1", 3, "incumbent")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["backend"] == "envpool"
    assert set(manifest["versions"]) == {"capo", "jax", "gymnasium", "mujoco", "envpool"}
    assert manifest["command"].startswith("capo train CartPole-v1")
    assert manifest["wall_seconds"] > 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["steps"] for row in rows] == [128, 256, 384, 512]
    assert all(np.isfinite(row["kl"]) for row in rows)
    assert all(0 <= row["fisher/alignment"] <= 1 for row in rows)
    result = json.loads((run / "eval.json").read_text())
    assert result["episodes"] == len(result["returns"]) == 20
    assert (run / "summary.png").read_bytes().startswith(b"\x89PNG")


def test_eval_agrees_with_the_training_run(finished):
    folder, _ = finished
    trained = json.loads((folder / "run" / "eval.json").read_text())
    done = capo("eval", "run", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["returns"] == trained["returns"]
    text = capo("eval", "run/model.safetensors", "--episodes", "1", cwd=folder).stdout
    assert text.startswith("CartPole-v1, capo: return ")
    assert "over 1 episode, length" in text


OWN_TASK = """
import gymnasium as gym
from probes import Target
gym.register("Mine-v0", Target)
"""


def test_a_module_is_imported_for_the_task_that_is_named_not_for_the_models(
    tmp_path, monkeypatch, capsys
):
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


def test_a_foreign_model_is_not_unpickled_without_being_asked_to(tmp_path, capsys):
    trap = tmp_path / "model.zip"
    trap.write_bytes(b"not even a zip")
    assert main(["diagnose", str(trap), "--env", "CartPole-v1"]) == 2
    assert "unpickling, which can run any code" in capsys.readouterr().err
    assert main(["diagnose", str(trap), "--trust"]) == 2
    assert "does not say its environment; add --env" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [trap]


def test_a_folder_that_holds_a_run_is_refused(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    before = {p: p.stat().st_mtime_ns for p in (finished[0] / "run").iterdir()}
    assert main(["train", "CartPole-v1", *TINY, "--run-dir", "run"]) == 2
    said = "capo: run already holds a run; choose another --run-dir, or --resume run\n"
    assert capsys.readouterr().err == said
    assert before == {p: p.stat().st_mtime_ns for p in (finished[0] / "run").iterdir()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train CartPol-v1", "unknown environment 'CartPol-v1'; did you mean CartPole-v1?"),
        (
            "train CartPole-v1 --algo capo-agv",
            "unknown algorithm 'capo-agv'; did you mean capo-avg?",
        ),
        ("train CartPole-v1 --minibatches 30", "do not divide into 30 minibatches; try 32"),
        ("train CartPole-v1 --experts 0", "--experts is 0; it must be at least 1"),
        ("train CartPole-v1 -n 10", "10 steps are fewer than one batch"),
        ("train CartPole-v1 -n ten", "'ten' is not a number of steps; write 1_000_000, 1e6 or 1M"),
        ("train CartPole-v1 --gamma inf", "--gamma is inf; it must be between 0 and 1"),
        ("train CartPole-v1 --clip x", "Error parsing --clip: could not convert string to float"),
        ("train CartPole-v1 --carry none", "invalid choice 'none' for argument '--carry'"),
        ("train CartPole-v1 --cilp 1", "Unrecognized options: --cilp, 1; did you mean --clip?"),
        ("train CartPole-v1 --network cnn", "a CNN cannot read the observation space Box("),
        ("train CartPole-v1 --eval-episodes -1", "--eval-episodes is -1; it must be at least 0"),
        ("train", "Missing from capo train: ENV"),
        ("eval nowhere", "there is no run nowhere"),
        ("eval . --episodes 0", "--episodes is 0; it must be at least 1"),
        ("eval .", "holds no model.safetensors"),
        (f"eval {'x' * 300}", "cannot be read: File name too long"),
        (f"export {'x' * 300} --onnx policy.onnx", "cannot be read: File name too long"),
        ("train CartPole-v1 --diagnostics -1", "--diagnostics is -1; it must be at least 0"),
        ("play nowhere", "there is no run nowhere"),
        ("play . --episodes 0", "--episodes is 0; it must be at least 1"),
        ("play . --seed -1", "--seed is -1; it must be between 0 and"),
        ("play . --fps 0", "--fps is 0.0; it must be above 0"),
        ("play . --width 8", "--width is 8; it must be at least 16"),
        ("play . --max-steps 0", "--max-steps is 0; it must be at least 1"),
        ("export nowhere --onnx policy.onnx", "there is no run nowhere"),
        ("export nowhere", "Missing from capo export: --onnx"),
        ("completion cmd", "invalid choice 'cmd'"),
        ("diagnose nowhere", "there is no run nowhere"),
        ("diagnose nowhere.zip", "there is no file nowhere.zip"),
        ("diagnose . --epochs 2,x", "'2,x' is not a list of epochs; write 2,4,6,10"),
        ("diagnose . --experts 0", "--experts is 0; it must be at least 1"),
        ("diagnose . --seed -1", "--seed is -1; it must be at least 0"),
        ("diagnose . --learning-rate 0", "--learning-rate is 0.0; it must be above 0"),
        ("diagnose . --damping nan", "--damping is nan; it must be at least 0"),
        ("diagnose . --damping -1", "--damping is -1.0; it must be at least 0"),
        ("diagnose . --trust", "--trust are for a Stable-Baselines3 .zip"),
        ("bogus", "Unrecognized options: bogus; available subcommands: train, eval"),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("capo: ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "framed",
    [
        "╭─ Value error ──╮\n│ Error parsing --clip: bad │\n│ ──── │\n│ Argument helptext: │\n╰─╯",
        " Value error \n ------ \n  Error parsing --clip: bad \n  ------\n  Argument helptext: \n",
        "\x1b[91m\x1b[1m╭─\x1b[0m \x1b[1mValue error\x1b[0m ─╮\n\x1b[91m│\x1b[0m Error parsing "
        "--clip: \x1b[1mbad\x1b[0m \x1b[91m│\x1b[0m\n\x1b[91m│\x1b[0m ─── \x1b[91m│\x1b[0m\n",
        "Error parsing --clip: bad",
    ],
    ids=["lines", "dashes", "coloured", "unframed"],
)
def test_every_kind_of_frame_is_read(framed):
    assert _one_line(framed) == "Error parsing --clip: bad"


def test_bad_input_in_a_terminal_is_one_line(tmp_path):
    """With a pseudo-terminal on all ends, where tyro draws in colour."""
    words = [sys.executable, "-m", "capo", "train", "CartPole-v1", "--minibatches", "30"]
    ours, theirs = pty.openpty()
    done = subprocess.run(words, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    said = os.read(ours, 65536).decode()
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert said.splitlines() == [
        "capo: 8 envs × 512 steps = 4096 samples do not divide into 30 minibatches; try 32"
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["train", "CartPole-v1", *TINY, "--run-dir", str(tmp_path / "run")]) == 2
    assert "cannot be written to" in capsys.readouterr().err


class Faulty(gym.Wrapper):
    def step(self, action):
        obs, *rest = super().step(action)
        self.count = getattr(self, "count", 0) + 1
        return obs * np.nan if self.count == 100 else obs, *rest


def test_a_broken_environment_stops_the_run_and_keeps_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gym.register("Faulty-v0", lambda: Faulty(gym.make("CartPole-v1")))
    code = main(["train", "Faulty-v0", "--algo", "ppo", *TINY, "--run-dir", "run"])
    del gym.registry["Faulty-v0"]
    assert code == 1
    assert "environment 0 returned a non-finite observation at step 36" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "failed"
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_help_names_every_verb_and_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    flags = """experts epochs minibatches num-envs num-steps learning-rate anneal-lr gamma
        gae-lambda clip entropy-coef vf-coef max-grad-norm target-kl delta warmup warmup-floor carry
        base-optimizer trpo-delta trpo-damping trpo-cg-iters diversity hidden state-dependent-std
        backend workers preset line-search distill algo seed run-dir"""
    assert [flag for flag in flags.split() if f"--{flag}" not in text] == []
    assert "-n STEPS" in text


def test_help_does_not_start_jax():
    code = "import sys, capo.cli; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_all_verbs_fit_one_screen(words, capsys):
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for name, function in COMMANDS.items():
        at = next(i for i, line in enumerate(lines) if line.split()[:1] == [name])
        assert lines[at].endswith(summary(function))
        assert len(summary(function)) > 20
        assert lines[at + 1].strip() == example(function)
        assert f"capo {name} " in example(function) + " "


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_has_an_example_in_its_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Example: {example(COMMANDS[name])}" in said


def test_version(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"capo \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


ASK = """
source ./script
ask() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _capo
  echo "${COMPREPLY[*]}"
}
"""
COMPLETIONS = {
    ("capo", "ev"): "eval",
    ("capo", "train", "Hopper-v4", "--mini"): "--minibatches",
    ("capo", "train", "InvertedP"): "InvertedPendulum-v2 InvertedPendulum-v4 InvertedPendulum-v5",
    ("capo", "train", "Hopper-v4", "--algo", "capo"): "capo-avg capo",
    ("capo", "train", "Hopper-v4", "--preset", ""): "default paper",
    ("capo", "play", "run", "--ep"): "--episodes",
    ("capo", "completion", "b"): "bash",
    # Nothing of ours, so that bash completes names of files.
    ("capo", "eval", ""): "",
    ("capo", "play", "run", "--out", "sc"): "",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = "\n".join(shlex.join(["ask", *words]) for words in COMPLETIONS)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK + asked + "\ncomplete -p capo"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    *found, registered = done.stdout.splitlines()
    assert dict(zip(COMPLETIONS, found, strict=True)) == COMPLETIONS
    assert registered == "complete -o default -F _capo capo"
