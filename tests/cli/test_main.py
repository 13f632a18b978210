"""Help screens, the version, and bad arguments of every command."""

import os
import pty
import re
import subprocess
import sys

import pytest

from capo import __version__
from capo.cli.main import _one_line, main
from capo.cli.screen import example, summary
from capo.cli.verbs import COMMANDS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train CartPol-v1", "unknown environment 'CartPol-v1'; did you mean CartPole-v1?"),
        (
            "train CartPole-v1 --algo capo-agv",
            "unknown algorithm 'capo-agv'; did you mean capo-avg?",
        ),
        ("train CartPole-v1 --minibatches 30", "do not divide into 30 minibatches; try 32"),
        ("train CartPole-v1 --experts 0", "--experts is 0; it must be between 1 and 1000000"),
        ("train CartPole-v1 -n 10", "10 steps are fewer than one batch"),
        ("train CartPole-v1 -n ten", "'ten' is not a number of steps; write 1_000_000, 1e6 or 1M"),
        ("train CartPole-v1 --gamma inf", "--gamma is inf; it must be between 0 and 1"),
        ("train CartPole-v1 --clip x", "Error parsing --clip: could not convert string to float"),
        ("train CartPole-v1 --carry none", "invalid choice 'none' for argument '--carry'"),
        ("train CartPole-v1 --cilp 1", "Unrecognized options: --cilp, 1; did you mean --clip?"),
        ("train CartPole-v1 --network cnn", "a CNN cannot read the observation space Box("),
        ("train CartPole-v1 --eval-episodes -1", "--eval-episodes is -1; it must be at least 0"),
        ("train", "which environment? write it after the verb: capo train Hopper-v4"),
        ("train --env X", "which environment? write it after the verb: capo train Hopper-v4"),
        (
            "train Acrobot-v1 --nsteps 3",
            "Unrecognized options: --nsteps, 3; did you mean --num-steps?",
        ),
        ("tran", "there is no verb tran; did you mean train? There are train, sweep, eval"),
        ("resume runs/a", "there is no verb resume; a run goes on with capo train --resume RUN"),
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
        ("bogus", "there is no verb bogus; there are train, sweep"),
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
def test_the_message_in_tyros_frame_is_found(framed):
    assert _one_line(framed, "train") == "Error parsing --clip: bad"


def test_bad_input_in_a_terminal_is_one_line(tmp_path):
    """With a pseudo-terminal, where tyro prints in colour."""
    words = [sys.executable, "-m", "capo", "train", "Acrobot-v1", "--preset", "default"]
    words += ["--minibatches", "30"]
    ours, theirs = pty.openpty()
    done = subprocess.run(words, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    said = os.read(ours, 65536).decode()
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert said.splitlines() == [
        "capo: 8 envs × 128 steps = 1024 samples do not divide into 30 minibatches; try 32"
    ]


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    flags = """experts epochs minibatches num-envs num-steps learning-rate schedule gamma
        gae-lambda clip entropy-coef vf-coef max-grad-norm target-kl delta warmup warmup-floor carry
        base-optimizer trpo-delta trpo-damping trpo-cg-iters diversity hidden state-dependent-std
        backend workers preset line-search distill algo seed run-dir"""
    assert [flag for flag in flags.split() if f"--{flag}" not in text] == []
    assert "-n STEPS" in text


def test_help_imports_neither_jax_nor_jinja():
    code = "import sys, capo.cli.main; sys.exit(bool({'jax', 'jinja2'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_all_commands_fit_one_screen(words, capsys):
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
def test_every_command_has_an_example_in_its_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Example: {example(COMMANDS[name])}" in said


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"capo {__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", __version__)
