"""A loaded model equals the saved one, also in another process; a bad file is refused."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import jax
import numpy as np
import pytest

from capo import Model, UsageError, generations
from capo.storage.spaces import space_from_json, space_to_json
from capo.storage.tensors import named_leaves
from support.equality import same
from support.hostile_files import pack, unpack
from support.policies import blank_model
from support.probes import Target, small, vector

OLD = Path(__file__).parent / "data" / "model-schema-1.safetensors"
"""A model of schema 1, without digests: PPO on CartPole-v1 with four hidden units."""

SPACES = [
    gym.spaces.Box(-1, 1, (2,)),
    gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
    gym.spaces.Discrete(4, start=2),
    gym.spaces.MultiDiscrete([2, 3], start=[1, 0]),
    gym.spaces.MultiBinary(3),
]
SEEN = [
    gym.spaces.Box(0, 255, (36, 36, 3), np.uint8),
    gym.spaces.Box(np.zeros((2, 2), bool), np.ones((2, 2), bool), dtype=np.bool_),
    gym.spaces.Box(np.array([-np.inf, 0.0]), np.array([1.5, np.inf]), dtype=np.float64),
    gym.spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
    gym.spaces.MultiBinary([2, 3]),
    gym.spaces.MultiDiscrete([[2, 3], [4, 5]]),
    gym.spaces.Dict({"a": gym.spaces.Discrete(3), "b": gym.spaces.Tuple(SPACES[:2])}),
]
"""Spaces that are only ever observed."""


@pytest.fixture(scope="module")
def trained():
    config = small("ppo", total_steps=64 * 3, normalize_obs=True)
    return list(generations(config, vector(Target)))[-1].model


@pytest.mark.parametrize("space", SPACES + SEEN, ids=str)
def test_spaces_survive_json(space):
    text = json.dumps(space_to_json(space))
    assert space_from_json(json.loads(text)) == space
    assert len(text) < 300, "equal bounds are one number"


def test_a_model_of_the_first_schema_still_loads():
    model = Model.load(OLD)
    obs = np.array([[0.01 * i, -0.3 * i, 0.02 * i - 0.1, 0.4 * i - 1] for i in range(8)])
    np.testing.assert_array_equal(model.act(obs), [0, 0, 0, 1, 1, 1, 1, 1])
    drawn = model.act(obs, False, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, [0, 0, 0, 1, 1, 0, 0, 0])
    logits = model.policy(model.obs_stats.normalize(obs[:1]))
    np.testing.assert_allclose(logits, [[0.3463087, -0.3665792]], rtol=1e-5)


def test_a_changed_file_is_refused(trained, tmp_path):
    """A changed bit of any array, or digit of the configuration, is detected."""
    good, bad = tmp_path / "m.safetensors", tmp_path / "bad.safetensors"
    trained.save(good)
    content = good.read_bytes()
    swapped = bytearray(content)
    swapped[-2] ^= 1
    for edited in (bytes(swapped), content.replace(b'\\"gamma\\": 0.9', b'\\"gamma\\": 0.8')):
        assert edited != content
        bad.write_bytes(edited)
        with pytest.raises(UsageError, match=r"bad\.safetensors .* its digest does not match"):
            Model.load(bad)


@pytest.mark.parametrize("space", SEEN[:2] + SEEN[4:], ids=str)
def test_observation_statistics_are_saved_and_loaded(space, tmp_path):
    model = blank_model(small("ppo"), space, SPACES[2])
    model.save(tmp_path / "m.safetensors")
    loaded = Model.load(tmp_path / "m.safetensors")
    assert loaded.observation_space == space
    assert same((loaded.policy, loaded.critic), (model.policy, model.critic))


def test_networks_in_float64_stay_so(tmp_path):
    with jax.enable_x64(True):
        model = blank_model(small("ppo"), *SPACES[:2])
    model.save(tmp_path / "m.safetensors")
    found = Model.load(tmp_path / "m.safetensors").policy
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(np.float64)}


def test_arrays_that_are_not_numbers_are_refused(trained, tmp_path):
    path = tmp_path / "m.safetensors"
    trained.save(path)
    header, arrays = unpack(path)
    for name, value, complaint in (
        ("policy.net.biases.0", np.nan, "policy.net.biases.0 is not finite"),
        ("return_stats.var", -1.0, "a variance is below 0"),
    ):
        assert set(named_leaves(trained._arrays())) == set(arrays)
        path.write_bytes(pack({**arrays, name: np.full_like(arrays[name], value)}, header))
        with pytest.raises(UsageError, match=f"damaged or was edited: {complaint}"):
            Model.load(path)


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
    yield "another schema", bytes(data).replace(b'"schema":"2"', b'"schema":"9"')
    yield "another format", bytes(data).replace(b"capo-model", b"else-model")
    yield "another size", bytes(data).replace(b'\\"hidden\\": [16]', b'\\"hidden\\": [17]')


def test_other_files_are_an_error_that_names_them(trained, tmp_path):
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
