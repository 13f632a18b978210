"""Runs tracked by Weights & Biases and Trackio, stored locally and read back."""

import json
import os
import sqlite3
import struct
import subprocess
import sys

import pytest

from capo.runs.tensorboard import scalars

SIZES = {"-n": 512, "--num-envs": 2, "--num-steps": 64, "--minibatches": 4, "--hidden": 8}
TRAIN = ["train", "CartPole-v1", "--algo", "ppo", "--run-dir", "run", "--track-project", "trial"]
TRAIN += [str(word) for pair in SIZES.items() for word in pair]
BROKEN = """
import sys
from pathlib import Path
from capo import Config
from capo.runs.folder import RunFolder
from capo.runs.options import Options
options = Options(track=sys.argv[1], track_project="trial")
run = RunFolder(Path("run"), Config("CartPole-v1"), "none", options)
run.log({"steps": 128.0, "seconds": 1.0, "return": 3.0, "kl": 0.1, "warmup": 0.0})
run.finish("failed", None)
"""


def python(folder, *words, **settings):
    """Runs Python with the services configured to store in `folder`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "TRACKIO_"))}
    settings = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(folder / "trackio"), **settings}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env={**environment, **settings},
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def expected(run):
    """The scalars of a run by steps, from metrics.jsonl and eval.json."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {row["steps"]: scalars(row) for row in rows}
    found[rows[-1]["steps"]]["evaluation/return"] = json.loads((run / "eval.json").read_text())[
        "mean"
    ]
    return found


def records(file):
    """The messages of an offline run: pieces in blocks of 32 KiB, as in a LevelDB log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        size, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield Record.FromString(whole)
            whole = b""


def offline(folder):
    (file,) = folder.glob("run/wandb/offline-run-*/*.wandb")
    return {kind: [r for r in records(file) if r.HasField(kind)] for kind in KINDS}


KINDS = ("run", "history", "exit", "config")


def test_a_run_at_wandb(tmp_path):
    pytest.importorskip("wandb", reason="make test-peers installs it")
    done = python(tmp_path, "-m", "capo", *TRAIN, "--track", "wandb")
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    found = offline(tmp_path)
    run = found["run"][0].run
    assert (run.project, run.display_name, sorted(run.tags)) == (
        "trial", "run", ["CartPole-v1", "ppo"],
    )  # fmt: skip
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["minibatches"] == 4
    history = {}
    for record in found["history"]:
        items = {i.nested_key[0] if i.nested_key else i.key: i for i in record.history.item}
        values = {k: json.loads(i.value_json) for k, i in items.items()}
        history[values.pop("_step")] = {k: v for k, v in values.items() if k[0] != "_"}
    assert history == expected(tmp_path / "run")
    assert [record.exit.exit_code for record in found["exit"]] == [0]


def test_wandb_records_a_failed_run(tmp_path):
    pytest.importorskip("wandb", reason="make test-peers installs it")
    done = python(tmp_path, "-c", BROKEN, "wandb")
    assert done.returncode == 0, done.stderr
    found = offline(tmp_path)
    assert [record.exit.exit_code for record in found["exit"]] == [1]
    assert len(found["history"]) == 1
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "failed"


def test_without_a_login_nothing_is_written(tmp_path):
    pytest.importorskip("wandb", reason="make test-peers installs it")
    nobody = {"WANDB_MODE": "online", "HOME": str(tmp_path / "home"), "NETRC": "/dev/null"}
    done = python(tmp_path, "-m", "capo", *TRAIN, "--track", "wandb", **nobody)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("capo: --track wandb: No API key configured")
    assert "WANDB_MODE=offline" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_at_trackio(tmp_path):
    pytest.importorskip("trackio", reason="make test-peers installs it")
    done = python(tmp_path, "-m", "capo", *TRAIN, "--track", "trackio")
    assert done.returncode == 0, done.stderr
    (tmp_path / "broken").mkdir()
    assert python(tmp_path / "broken", "-c", BROKEN, "trackio").returncode == 0
    with sqlite3.connect(tmp_path / "trackio" / "trial.db") as base:
        rows = base.execute("select run_name, step, metrics from metrics").fetchall()
        ((name, config),) = base.execute("select run_name, config from configs").fetchall()
    history = {}
    for run, step, metrics in rows:
        assert run == "run"
        history.setdefault(step, {}).update(json.loads(metrics))
    assert history == expected(tmp_path / "run")
    assert name == "run"
    assert json.loads(config)["env_id"] == "CartPole-v1"
    with sqlite3.connect(tmp_path / "broken" / "trackio" / "trial.db") as base:
        assert base.execute("select step from metrics").fetchall() == [(128,)]
