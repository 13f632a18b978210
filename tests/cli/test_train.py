"""The command `capo train`: its output, the run folder, and what it refuses."""

import json
import os
import platform
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from capo.cli.main import main, parse
from capo.config import Config
from support.commands import TINY

pytestmark = pytest.mark.xdist_group("cli")  # one process, so that `finished` trains once


def test_the_output_of_a_run(finished):
    _, done = finished
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert lines[0].startswith("capo 0.1.0 jax ")
    assert "CartPole-v1" in lines[0]
    assert "K=8 E=10, 2×64 samples × 4 generations" in lines[0]
    assert lines[1].startswith("compiling took ")
    assert all("steps/s" in line and "left" in line and "KL" in line for line in lines[2:6])
    said = r"at \S+: signal \d+% of the KL, consensus removed -?\d+% of the waste"
    assert all(re.search(said, line) for line in lines[2:6])
    assert lines[6].startswith("Theorem 1 in 4 generations with several experts: the pool broke it")
    assert lines[7].startswith("evaluation: return ")
    assert lines[8].startswith("run folder: run/")
    assert lines[9].split() == ["next:", "capo", "eval", "run", "--episodes", "100"]


def test_the_files_of_a_run(finished):
    run = finished[0] / "run"
    names = {p.name.replace(platform.node(), "") for p in run.iterdir()}
    (events,) = (name for name in names if name.startswith("events.out.tfevents."))
    assert names == {
        events, "config.json", "manifest.json", "metrics.jsonl", "model.safetensors", "eval.json",
        "summary.png", "checkpoints", ".lock",
    }  # fmt: skip
    config = json.loads((run / "config.json").read_text())
    assert (config["env_id"], config["seed"], config["carry"]) == ("CartPole-v1", 3, "average")
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


def test_a_folder_that_holds_a_run_is_refused(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    before = {p: p.stat().st_mtime_ns for p in (finished[0] / "run").iterdir()}
    assert main(["train", "CartPole-v1", *TINY, "--run-dir", "run"]) == 2
    said = "capo: run already holds a run; choose another --run-dir, or --resume run\n"
    assert capsys.readouterr().err == said
    assert before == {p: p.stat().st_mtime_ns for p in (finished[0] / "run").iterdir()}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    tmp_path.chmod(0o500)
    folder = tmp_path if os.geteuid() else Path("/sys")  # root may write anywhere but there
    assert main(["train", "CartPole-v1", *TINY, "--run-dir", str(folder / "run")]) == 2
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


def test_a_file_has_the_settings_and_flags_go_before_it(finished, tmp_path, capsys):
    file = finished[0] / "run" / "config.json"
    call = parse(["train", "--config", str(file), "--seed", "5", "--run-dir", "other"])
    saved = Config.from_dict(json.loads(file.read_text()))
    assert call.keywords["config"] == saved.replace(seed=5)
    assert main(["train", "--config", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err == f"capo: {tmp_path}/none.json is not a file\n"
    (tmp_path / "wrong.json").write_text('{"env_id": "CartPole-v1", "epoch": 3}')
    assert main(["train", "--config", str(tmp_path / "wrong.json")]) == 2
    assert "wrong.json: unknown configuration keys: epoch" in capsys.readouterr().err


def test_a_file_does_not_decide_which_module_is_imported(tmp_path, monkeypatch, capsys):
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = Config("theirs:Task-v0", algo="ppo").to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ["train", "--config", str(tmp_path / "config.json"), "--run-dir", str(tmp_path / "run")]
    assert main(words) == 2
    assert "theirs:Task-v0" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
