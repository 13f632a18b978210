"""A saved model is the same model, in another process too, and a bad file is refused."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from capo import Model, UsageError, generations
from capo.model import blank_model, space_from_json, space_to_json
from probes import Target, small, vector
from test_consensus import same

SPACES = [
    gym.spaces.Box(-1, 1, (2,)),
    gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
    gym.spaces.Discrete(4, start=2),
    gym.spaces.MultiDiscrete([2, 3], start=[1, 0]),
    gym.spaces.MultiBinary(3),
]


@pytest.fixture(scope="module")
def trained():
    config = small("ppo", total_steps=64 * 3, normalize_obs=True)
    return list(generations(config, vector(Target)))[-1].model


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_json(space):
    assert space_from_json(json.loads(json.dumps(space_to_json(space)))) == space


def test_a_loaded_model_is_the_saved_one(trained, tmp_path):
    trained.save(tmp_path / "m.safetensors")
    loaded = Model.load(tmp_path / "m.safetensors")
    assert loaded.config == trained.config
    assert (loaded.observation_space, loaded.action_space) == (
        trained.observation_space,
        trained.action_space,
    )
    assert same((loaded.policy, loaded.critic), (trained.policy, trained.critic))
    np.testing.assert_equal(loaded.obs_stats, trained.obs_stats)
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"], "no temporary file is left"


def test_a_loaded_model_acts_the_same_in_a_new_process(trained, tmp_path):
    trained.save(tmp_path / "m.safetensors")
    obs = np.random.default_rng(0).standard_normal((5, 1)).astype(np.float32)
    np.save(tmp_path / "obs.npy", obs)
    code = (
        "import numpy as np, capo, sys; m = capo.Model.load('m.safetensors'); "
        "o = np.load('obs.npy'); np.save('a.npy', m.act(o)); "
        "np.save('s.npy', m.act(o, False, np.random.default_rng(3)))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), trained.act(obs))
    drawn = trained.act(obs, False, np.random.default_rng(3))
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), drawn)


def test_one_observation_or_many(trained):
    many = trained.act(np.zeros((3, 1)))
    assert many.shape == (3, 1)
    np.testing.assert_allclose(trained.act(np.zeros(1)), many[0], rtol=1e-6)
    with pytest.raises(UsageError, match=r"an observation has shape \(1,\)"):
        trained.act(np.zeros(2))


@pytest.mark.parametrize("space", SPACES[2:] + SPACES[:1], ids=str)
def test_actions_are_in_the_space(space):
    model = blank_model(small("ppo"), gym.spaces.Box(-1, 1, (2,)), space)
    for deterministic in (True, False):
        for seed in range(20):
            action = model.act(np.ones(2), deterministic, np.random.default_rng(seed))
            assert space.contains(np.asarray(action, space.dtype)), action


def damaged(path):
    data = bytearray(path.read_bytes())
    yield "truncated", bytes(data[: len(data) // 2])
    yield "empty", b""
    yield "a pickle", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins"
    yield "a header that claims too much", (2**62).to_bytes(8, "little") + bytes(data[8:])
    yield "another schema", bytes(data).replace(b'"schema":"1"', b'"schema":"9"')
    yield "another format", bytes(data).replace(b"capo-model", b"else-model")
    yield "another size", bytes(data).replace(b'\\"hidden\\": [16]', b'\\"hidden\\": [17]')


def test_other_files_are_refused_by_name(trained, tmp_path):
    good = tmp_path / "m.safetensors"
    trained.save(good)
    for what, content in damaged(good):
        assert content != good.read_bytes(), what
        bad = tmp_path / "bad.safetensors"
        bad.write_bytes(content)
        with pytest.raises(UsageError, match=r"bad\.safetensors"):
            Model.load(bad)
    with pytest.raises(UsageError, match="there is no model file"):
        Model.load(tmp_path / "none")
