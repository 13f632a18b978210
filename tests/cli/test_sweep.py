"""The command `capo sweep`: a grid is trained once, goes on, and names what failed."""

import json
import signal
import subprocess
import sys
import time

import pytest

from capo.cli.main import main
from support.commands import capo

SIZES = ["num_envs=2", "num_steps=64", "minibatches=2", "hidden=[8]"]
TINY = [word for size in SIZES for word in ("--set", size)]
SWEEP = ["sweep", "Acrobot-v1", "--algo", "ppo", *TINY, "-n", "512", "--out", "out"]


def test_a_dry_run_writes_nothing(elsewhere, tmp_path, capsys):
    words = ["--set", "gamma=0.9,0.99", "--seeds", "2", "--dry-run"]
    assert main([*SWEEP, *words]) == 0
    assert "4 runs, 0 of them done" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep"], "name a task: capo sweep Hopper-v4"),
        (["sweep", "Acrobt-v1"], "unknown environment 'Acrobt-v1'; did you mean Acrobot-v1?"),
        (["sweep", "Acrobot-v1", "--algo", "capu"], "did you mean capo?"),
        (["sweep", "Acrobot-v1", "--seeds", "x"], "'x' are no seeds"),
        (["sweep", "Acrobot-v1", "--set", "gama=1"], "did you mean gamma?"),
        (["sweep", "Acrobot-v1", "--jobs", "0"], "--jobs is 0; it must be at least 1"),
        (["train", "Acrobot-v1", "--jobs", "2"], "--jobs is for several runs; add --seeds"),
        (["train", "Acrobot-v1", "--seeds", "2", "--resume", "auto"], "leave --resume out"),
        (["train", "Acrobot-v1", "--seeds", "2", "--run-dir", "full"], "not of a sweep"),
        (["sweep", "Acrobot-v1", "--out", "file"], "file is not a folder; choose another --out"),
        (["sweep", "Acrobot-v1", "--out", "full"], "full has files that are not of a sweep"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(words, said, elsewhere, tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    before = sorted(tmp_path.rglob("*"))
    assert main(words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_sweep_is_trained_once_and_can_grow(tmp_path):
    done = capo(*SWEEP, "--seeds", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "out" / "Acrobot-v1__ppo__num_envs=2__num_steps=64__minibatches=2__hidden=8__1"
    first = (run / "metrics.jsonl").stat().st_mtime_ns
    assert (tmp_path / "out" / "compare" / "report.html").is_file()
    again = capo(*SWEEP, "--seeds", "2", cwd=tmp_path)
    assert "2 runs, 1 of them done" in again.stdout
    assert (run / "metrics.jsonl").stat().st_mtime_ns == first
    manifest = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert len(manifest["runs"]) == 2
    other = capo(*SWEEP, "--seeds", "1", "--preset", "paper", cwd=tmp_path)
    assert other.returncode == 2
    assert "out holds another sweep:" in other.stderr


@pytest.mark.slow
def test_a_failed_run_is_named_and_a_stopped_sweep_goes_on(tmp_path):
    words = [*SWEEP[:-4], "-n", "32k", "--out", "out", "--seeds", "2"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text("{}")
    name = "Acrobot-v1__ppo__num_envs=2__num_steps=64__minibatches=2__hidden=8"
    (tmp_path / "out" / f"{name}__2").touch()  # in the way of the second run
    process = subprocess.Popen([sys.executable, "-m", "capo", *words], cwd=tmp_path)
    rows = tmp_path / "out" / f"{name}__1" / "metrics.jsonl"
    while not rows.is_file() or rows.read_text().count("\n") < 20:
        assert process.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    done = capo(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert f"failed: {name}__2: " in done.stdout
    assert "is not a folder" in done.stdout
    (tmp_path / "whole").mkdir()
    whole = capo(*words[:-2], "--seeds", "1", cwd=tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    undisturbed = tmp_path / "whole" / "out" / f"{name}__1" / "metrics.jsonl"
    assert learned(rows) == learned(undisturbed)


def learned(file):
    """The numbers of every generation that do not depend on the clock."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [[row[key] for key in ("steps", "return", "kl", "value_loss")] for row in rows]
