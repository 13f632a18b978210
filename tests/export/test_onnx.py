"""Export without ONNX installed; tests/peers has the tests with it."""

import sys

import gymnasium as gym
import numpy as np
import pytest

from capo.cli.main import main
from capo.model import blank_model
from support.probes import BIT, small


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_one_line(package, tmp_path, monkeypatch, capsys):
    if package == "onnxruntime":
        pytest.importorskip("onnx", reason="without it, it is onnx that is missing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    space = gym.spaces.Box(-1, 1, (3,), np.float32)
    blank_model(small(), space, BIT).save("model.safetensors")
    assert main(["export", "model.safetensors", "--onnx", "policy.onnx"]) == 2
    said = capsys.readouterr().err
    assert "pip install 'capo-rl[onnx]'" in said
    assert said.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
