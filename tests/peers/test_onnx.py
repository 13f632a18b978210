"""Exported policies in ONNX Runtime, compared with the policies themselves."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import gymnasium as gym
import jax
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="make test-peers installs it")
onnxruntime = pytest.importorskip("onnxruntime", reason="make test-peers installs it")

from capo.cli.main import main  # noqa: E402
from capo.core.nesting import stack  # noqa: E402
from capo.core.normalize import RunningStats  # noqa: E402
from capo.errors import UsageError  # noqa: E402
from capo.export import onnx_graph  # noqa: E402
from capo.export.onnx import OBSERVATIONS, TOLERANCE, export_onnx  # noqa: E402
from capo.storage.spaces import space_from_json  # noqa: E402
from support.policies import blank_model  # noqa: E402
from support.probes import small  # noqa: E402

FLAT = gym.spaces.Box(-np.inf, np.inf, (5,), np.float64)
ACTIONS = {
    "Box": gym.spaces.Box(np.float32([-0.3, -np.inf]), np.float32([0.2, np.inf])),
    "Discrete": gym.spaces.Discrete(4, start=3),
    "MultiDiscrete": gym.spaces.MultiDiscrete([2, 1, 3], start=[0, 5, -1]),
    "MultiBinary": gym.spaces.MultiBinary(3),
}
CHOICE = ACTIONS["Discrete"]
OBSERVED = {
    "matrix": gym.spaces.Box(-1, 1, (2, 3), np.float32),
    "bytes": gym.spaces.Box(0, 255, (6,), np.uint8),
    "Discrete": gym.spaces.Discrete(5, start=-2),
    "MultiDiscrete": gym.spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 0]]),
    "MultiBinary": gym.spaces.MultiBinary([2, 2]),
    "Dict": gym.spaces.Dict(
        {
            "where": gym.spaces.Box(-1, 1, (2,), np.float64),
            "action": gym.spaces.Discrete(3),
            "inner": gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (1, 2), np.float32)}),
        }
    ),
    "Tuple": gym.spaces.Tuple([gym.spaces.MultiBinary(2), gym.spaces.Box(-1, 1, (1,))]),
    "image": gym.spaces.Box(0, 255, (9, 10, 3), np.uint8),
    "channels first": gym.spaces.Box(0, 255, (3, 9, 10), np.uint8),
    "bits": gym.spaces.Box(0, 1, (10, 10, 4), np.bool_),
    "large image": gym.spaces.Box(0, 255, (38, 37, 1), np.uint8),
}


def grown(space, action_space, seed=0, **changes):
    """A model with random weights and statistics, as after training."""
    config = small(**{"hidden": (16, 8), "normalize_obs": True, **changes})
    blank = blank_model(config, space, action_space)
    rng = np.random.default_rng(seed)

    def shaken(x):
        return x + rng.normal(0, 0.3, x.shape).astype(np.float32)

    shape = np.shape(blank.obs_stats.mean)
    stats = RunningStats(rng.normal(0, 3, shape), rng.uniform(0.01, 4, shape), np.full((), 9.0))
    return dataclasses.replace(blank, policy=jax.tree.map(shaken, blank.policy), obs_stats=stats)


def drawn(space, count, seed=3):
    space.seed(seed)
    return stack(space, [space.sample() for _ in range(count)])


def named(obs, name="observation"):
    """The inputs of the graph, by name, as the page documents them."""
    if isinstance(obs, dict | tuple):
        parts = obs.items() if isinstance(obs, dict) else enumerate(obs)
        return {k: v for key, part in parts for k, v in named(part, f"{name}.{key}").items()}
    return {name: obs.astype(np.float32) if obs.dtype == np.float64 else obs}


def run(file, given):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))


def agrees(model, file, obs):
    found, (wanted, _) = run(file, named(obs)), model.predict(obs, deterministic=True)
    if found["action"].dtype == np.float32:
        return np.allclose(found["action"], wanted, atol=TOLERANCE)
    return found["action"].dtype == wanted.dtype and np.array_equal(found["action"], wanted)


def test_onnxruntime_is_needed_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.chdir(tmp_path)
    blank_model(small(), FLAT, CHOICE).save("model.safetensors")
    assert main(["export", "model.safetensors", "--onnx", "policy.onnx"]) == 2
    assert "pip install -e '.[onnx]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes", [{}, {"activation": "relu", "hidden": (7,)}], ids=["tanh", "relu"]
)
@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_all_action_spaces(space, changes, tmp_path):
    model, file = grown(FLAT, space, **changes), tmp_path / "policy.onnx"
    found = export_onnx(model, file)
    assert found.observations == OBSERVATIONS >= 256
    assert 0 < found.difference < TOLERANCE
    assert found.undecided < OBSERVATIONS / 20
    for count in (1, 200):
        obs = np.random.default_rng(count).normal(0, 4, (count, 5)).astype(np.float32)
        assert agrees(model, file, obs)
    actions = np.asarray(run(file, named(obs))["action"])
    assert len(np.unique(actions, axis=0)) > 1


def test_continuous_actions_are_kept_within_their_space(tmp_path):
    model = grown(FLAT, ACTIONS["Box"])
    export_onnx(model, tmp_path / "policy.onnx")
    obs = np.random.default_rng(0).normal(0, 4, (200, 5)).astype(np.float32)
    found = run(tmp_path / "policy.onnx", named(obs))
    bounded, free = found["action"].T
    assert bounded.min() == np.float32(-0.3)
    assert bounded.max() == np.float32(0.2)
    assert np.array_equal(free, found["parameters"][:, 1])
    assert np.ptp(free) > 0.5


@pytest.mark.parametrize("state_dependent_std", [False, True])
def test_deviations_are_among_the_parameters(state_dependent_std, tmp_path):
    model = grown(FLAT, ACTIONS["Box"], state_dependent_std=state_dependent_std)
    if model.policy.log_std is not None:
        far = dataclasses.replace(model.policy, log_std=np.float32([-9.0, 0.5]))
        model = dataclasses.replace(model, policy=far)
    export_onnx(model, tmp_path / "policy.onnx")
    obs = np.random.default_rng(0).normal(0, 9, (200, 5)).astype(np.float32)
    found = run(tmp_path / "policy.onnx", named(obs))["parameters"]
    wanted = model.policy(model.obs_stats.normalize(obs))
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)
    if not state_dependent_std:
        assert np.all(found[:, 2:] == np.float32([-5.0, 0.5]))


@pytest.mark.parametrize("space", OBSERVED.values(), ids=OBSERVED)
def test_all_observation_spaces(space, tmp_path):
    model, file = grown(space, CHOICE), tmp_path / "policy.onnx"
    export_onnx(model, file)
    assert agrees(model, file, drawn(space, 50))
    assert agrees(model, file, drawn(space, 1))


@pytest.mark.parametrize("kind", ["matrix", "Discrete", "Dict", "channels first", "bits"])
def test_a_stack_of_frames_is_the_state_of_predict(kind, tmp_path):
    space = OBSERVED[kind]
    model, file = grown(space, CHOICE, frame_stack=3), tmp_path / "policy.onnx"
    export_onnx(model, file)
    state = None
    for seed in range(4):
        action, state = model.predict(drawn(space, 20, seed), state, deterministic=True)
        assert np.array_equal(run(file, named(state))["action"], action)


def test_an_image_of_one_plane_is_read_by_a_cnn(tmp_path):
    space = gym.spaces.Box(0, 255, (9, 10), np.uint8)
    model = grown(space, CHOICE, network="cnn")
    export_onnx(model, tmp_path / "policy.onnx")
    assert agrees(model, tmp_path / "policy.onnx", drawn(space, 50))


def test_a_nearly_constant_observation_is_normalised_exactly(tmp_path):
    """A mean rounded to float32 would be off by 6e-8 · 1.2 / 1e-4, ten times what is allowed."""
    model = grown(FLAT, ACTIONS["Box"])
    stats = RunningStats(np.full(5, 1.2345678), np.zeros(5), np.full((), 9.0))
    model = dataclasses.replace(model, obs_stats=stats)
    assert export_onnx(model, tmp_path / "policy.onnx").difference < 1e-5


def test_the_file_has_metadata(tmp_path):
    model = grown(OBSERVED["Dict"], ACTIONS["MultiDiscrete"])
    export_onnx(model, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    inputs = {i.name: (i.type, i.shape) for i in session.get_inputs()}
    assert inputs == {
        "observation.action": ("tensor(int64)", ["batch"]),
        "observation.inner.a": ("tensor(float)", ["batch", 1, 2]),
        "observation.where": ("tensor(float)", ["batch", 2]),
    }
    said = session.get_modelmeta().custom_metadata_map
    assert (said["env_id"], said["algo"]) == ("probe", "ppo")
    assert space_from_json(json.loads(said["observation_space"])) == model.observation_space
    assert space_from_json(json.loads(said["action_space"])) == model.action_space


@pytest.mark.parametrize(
    ("changed", "space"),
    [("CLIP", ACTIONS["Box"]), ("LOG_STD_MIN", ACTIONS["Box"]), ("EPSILON", CHOICE)],
)
def test_a_graph_that_is_not_the_policy_is_refused(changed, space, tmp_path, monkeypatch):
    model = grown(FLAT, space)
    if model.policy.log_std is not None:
        low = dataclasses.replace(model.policy, log_std=np.float32([-9.0, 0.5]))
        model = dataclasses.replace(model, policy=low)
    monkeypatch.setattr(onnx_graph, changed, getattr(onnx_graph, changed) + 0.5)
    with pytest.raises(UsageError, match=r"the ONNX graph differs from the policy for .* of 256"):
        export_onnx(model, tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_wrong_actions_alone_are_refused(tmp_path, monkeypatch):
    model = grown(FLAT, CHOICE)
    shifted = dataclasses.replace(model, action_space=gym.spaces.Discrete(4, start=2))
    content = onnx_graph.build(shifted)
    monkeypatch.setattr(onnx_graph, "build", lambda _: content)
    with pytest.raises(UsageError, match=r"for 2[0-9][0-9] of 256"):
        export_onnx(model, tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grown(FLAT, CHOICE).save(tmp_path / "model.safetensors")
    assert main(["export", ".", "--onnx", "policy.onnx"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("checked against predict on 256 observations: the same actions, ")
    assert re.fullmatch(r"written: policy.onnx \(\d+ kB\)", second)
    onnx.checker.check_model("policy.onnx", full_check=True)


def test_the_code_on_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    blocks = re.findall(r"(<!-- [^\n]* -->\n)?```python\n(.*?)```", page, re.DOTALL)
    namespace = {}
    for mark, block in blocks:
        if "pygame" not in mark:
            exec(block, namespace)
    env = gym.make("CartPole-v1")
    obs, total, over = env.reset(seed=1)[0], 0.0, False
    while not over:
        action, _ = namespace["learner"].predict(obs, deterministic=True)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    assert capsys.readouterr().out.split()[-1] == str(total)
