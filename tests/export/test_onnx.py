"""Export without ONNX installed; tests/peers has the tests with it."""

import sys

import gymnasium as gym
import numpy as np

from capo.cli.main import main
from support.policies import blank_model
from support.probes import BIT, small


def test_a_missing_package_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    space = gym.spaces.Box(-1, 1, (3,), np.float32)
    blank_model(small(), space, BIT).save("model.safetensors")
    assert main(["export", "model.safetensors", "--onnx", "policy.onnx"]) == 2
    said = capsys.readouterr().err
    assert "pip install -e '.[onnx]'" in said
    assert said.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
