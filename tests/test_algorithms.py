"""The classes with the API of Stable-Baselines3."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import gymnasium as gym
import numpy as np
import pytest

import capo
from capo import (
    CAPO,
    PPO,
    TRPO,
    Config,
    UsageError,
    generations,
)
from capo.algorithms import Algorithm
from capo.aliases import MEANT, OTHER, SAME
from capo.errors import EnvError
from capo.keywords import Keywords, StableNames
from capo.methods import METHODS
from support.equality import same
from support.learners import BATCH, learn, learner
from support.probes import Target, but_slow, small, vector


class Seen(gym.Env):
    """The rewards of Target, with a dictionary of two observations."""

    observation_space = gym.spaces.Dict(
        {"flag": gym.spaces.Discrete(2), "side": gym.spaces.Box(-1, 1, (1,), np.float32)}
    )
    action_space = gym.spaces.Box(-0.5, 0.5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = float(self.np_random.choice([-1.0, 1.0]))
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32))
        paid = -float((action[0] - self.side / 2) ** 2)
        self.side = float(self.np_random.choice([-1.0, 1.0]))
        return self._see(), paid, True, False, {}

    def _see(self):
        return {"flag": int(self.side > 0), "side": np.full(1, 3 * self.side, np.float32)}


class Picture(gym.ObservationWrapper):
    """Target with a 5 × 5 image as the observation, bright on the left or on the right."""

    observation_space = gym.spaces.Box(0, 255, (5, 5, 1), np.uint8)

    def observation(self, obs):
        image = np.zeros((5, 5, 1), np.uint8)
        image[:, : 2 if obs[0] < 0 else None] = 255
        return image


def test_there_is_a_class_for_every_method():
    classes = Algorithm.__subclasses__()
    assert {kind.algo for kind in classes} == set(METHODS)
    assert all(getattr(capo, kind.__name__) is kind for kind in classes)


@pytest.mark.parametrize("cls", but_slow([PPO, CAPO], PPO))
def test_learn_equals_the_loop(cls):
    model = learn(4, cls)
    config = small(cls.algo, total_steps=4 * BATCH)
    last = list(generations(config, vector(Target, seed=1)))[-1]
    assert same(model.policy, last.model.policy)
    assert model.num_timesteps == 4 * BATCH


@pytest.mark.parametrize("cls", but_slow([PPO, CAPO], CAPO))
def test_learning_again_continues(cls):
    """With a constant learning rate, two calls equal one; the warmup ends in the first."""
    options = {"schedule": "constant", "warmup": 0.25 if cls is CAPO else 0.0}
    whole = learn(4, cls, **options)
    halves = learner(cls, **{**options, "warmup": options["warmup"] * 2})
    for _ in range(2):
        halves.learn(2 * BATCH, progress_bar=False)
    assert halves.num_timesteps == 4 * BATCH
    assert same(whole.policy, halves.policy)
    np.testing.assert_equal(whole.model.obs_stats, halves.model.obs_stats)


def test_an_evaluation_in_its_own_environments_does_not_change_learning():
    one, two = learner(schedule="constant"), learner(schedule="constant")
    one.learn(2 * BATCH, progress_bar=False)
    two.learn(2 * BATCH, progress_bar=False)
    result = two.evaluate(7)
    assert len(result.returns) == 7
    one.learn(BATCH, progress_bar=False)
    two.learn(BATCH, progress_bar=False)
    assert same(one.policy, two.policy)


def test_a_single_environment_is_used_for_learning_and_evaluation():
    model = learn(2, env=Target(), num_envs=1, num_steps=64)
    assert (model.config.num_envs, model.config.env_id) == (1, "Target")
    assert len(model.evaluate(3).returns) == 3
    model.learn(BATCH, progress_bar=False)
    assert model.num_timesteps == 3 * BATCH
    usual = PPO("MlpPolicy", Target())
    assert usual.config.num_steps == 1024


def test_the_schedule_spans_all_steps_asked_for():
    rates = []
    model = learner()
    for _ in range(2):
        model.learn(
            2 * BATCH,
            callback=lambda _, info: rates.append(info["learning_rate"]),
            progress_bar=False,
        )
    np.testing.assert_allclose(rates, [1e-2, 5e-3, 5e-3, 2.5e-3])


def test_actions_are_within_the_space_and_stochastic_unless_asked():
    model = learner(env=Seen)
    obs = {"flag": np.array([0, 1]), "side": np.array([[-3.0], [3.0]], np.float32)}
    drawn = np.array([model.predict(obs)[0] for _ in range(50)])
    assert drawn.shape == (50, 2, 1)
    assert np.abs(drawn).max() == 0.5, "a deviation of 1 often leaves the space"
    assert len(np.unique(drawn)) > 2
    fixed = [model.predict(obs, deterministic=True)[0] for _ in range(2)]
    np.testing.assert_array_equal(*fixed)
    one, state = model.predict(
        {"flag": 0, "side": np.array([-3.0], np.float32)}, deterministic=True
    )
    assert state is None
    np.testing.assert_allclose(one, fixed[0][0], rtol=1e-5)


@pytest.mark.parametrize(
    ("env", "policy", "changes"),
    [
        (Seen, "MultiInputPolicy", {"normalize_obs": True}),
        (lambda: Picture(Target()), "CnnPolicy", {"frame_stack": 2, "hidden": ()}),
    ],
    ids=["dict", "image"],
)
def test_a_loaded_model_acts_as_the_saved_one_in_a_new_process(env, policy, changes, tmp_path):
    model = learn(3, env=env, policy=policy, **changes)
    model.save(tmp_path / "model")
    space = model.observation_space
    space.seed(0)
    obs = [space.sample() for _ in range(4)]
    np.save(tmp_path / "obs.npy", np.array(obs, object), allow_pickle=True)
    code = (
        "import numpy as np, capo; m = capo.PPO.load('model'); state, out = None, []\n"
        "for o in np.load('obs.npy', allow_pickle=True):\n"
        "    a, state = m.predict(o if isinstance(o, dict) else np.array(o, np.uint8), state)\n"
        "    out.append(a)\n"
        "    out.append(m.predict(o if isinstance(o, dict) else np.array(o, np.uint8), state,"
        " deterministic=True)[0])\n"
        "np.save('actions.npy', np.array(out))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    state, wanted = None, []
    here = PPO.load(tmp_path / "model.safetensors")
    for o in obs:
        action, state = here.predict(o, state)
        wanted += [action, model.predict(o, state, deterministic=True)[0]]
    np.testing.assert_array_equal(np.load(tmp_path / "actions.npy"), np.array(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("cls", [PPO, CAPO])
def test_a_policy_learns_from_images(cls):
    """The best action is half the observation; without the image −0.25 is the best return."""
    model = learn(30, cls, env=lambda: Picture(Target()), policy="CnnPolicy", hidden=(16,))
    assert model.evaluate(40).mean > -0.05


class Signed(gym.Env):
    """The brighter side of an image is the best action where a number is 1, the other where −1."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (5, 5, 1), np.uint8),
            "sign": gym.spaces.Box(-1, 1, (1,), np.float32),
        }
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.sign = self.np_random.integers(2), self.np_random.choice([-1, 1])
        image = np.zeros((5, 5, 1), np.uint8)
        image[:, 4 * self.side] = 255
        self.seen = {"image": image, "sign": np.full(1, self.sign, np.float32)}
        return self.seen, {}

    def step(self, action):
        best = self.side if self.sign == 1 else 1 - self.side
        return self.seen, float(action == best), True, False, {}


@pytest.mark.slow
def test_a_policy_learns_from_an_image_and_a_number(tmp_path):
    """Neither alone is worth more than half the reward."""
    sizes = {"num_envs": 8, "num_steps": 32, "minibatches": 4}
    model = PPO("MultiInputPolicy", Signed, seed=1, **sizes).learn(8192, progress_bar=False)
    assert model.config.network == "multi"
    assert model.evaluate(40).mean > 0.9
    model.save(tmp_path / "m")
    assert PPO.load(tmp_path / "m", env=Signed).evaluate(40).mean > 0.9


def test_learning_continues_after_loading(tmp_path):
    model = learn(3)
    model.save(tmp_path / "model.safetensors")
    loaded = PPO.load(tmp_path / "model.safetensors", env=Target)
    assert same(loaded.policy, model.policy)
    loaded.learn(2 * BATCH, progress_bar=False)
    assert loaded.num_timesteps == 2 * BATCH
    assert loaded.model.obs_stats.seen == 5 * BATCH, "the statistics go on"
    assert not same(loaded.policy, model.policy)


def test_other_environments_keep_the_size_of_a_batch():
    """Batches of another shape are forgotten, so that learning goes on."""
    model = learn(2, CAPO, experts=2, diversity="batches")
    past = model._learner.last.state.past
    assert past is not None
    sizes = model.config.num_envs, model.config.num_steps
    model.set_env(Target())
    assert (model.config.num_envs, model.config.num_steps) == (1, sizes[0] * sizes[1])
    model.learn(BATCH, progress_bar=False)
    assert model.num_timesteps == 3 * BATCH


def test_another_environment_must_fit(tmp_path):
    model = learner()
    with pytest.raises(UsageError) as error:
        model.set_env("CartPole-v1")
    said = str(error.value)
    assert (
        "does not fit CartPole-v1: the observation space of the model is Box(-1.0, 1.0, (1,)"
        in said
    )
    assert "the action space of the model is Box" in said
    model.set_env(lambda: gym.wrappers.TimeLimit(Target(), 5))
    model.learn(BATCH, progress_bar=False)
    model.save(tmp_path / "m")
    with pytest.raises(UsageError, match=r"is a ppo model; load it with PPO\.load"):
        CAPO.load(tmp_path / "m")
    with pytest.raises(UsageError, match="does not fit CartPole-v1"):
        PPO.load(tmp_path / "m", env="CartPole-v1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "LstmPolicy"}, "unknown policy 'LstmPolicy'; there are MlpPolicy, CnnPolicy"),
        ({"epoch": 3}, "there is no field 'epoch' in capo.Config; did you mean epochs?"),
        ({"total_steps": 3}, r"total_steps is given to learn\(total_timesteps\)"),
        ({"batch_size": 32, "minibatches": 2}, "minibatches is given twice, also as batch_size"),
        ({"tensorboard_log": "a"}, r"tensorboard_log is learn\(run_dir=…\) here"),
        ({"use_sde": True}, "use_sde is not available; action_noise=0.5 explores"),
        ({"device": "cuda"}, "device is 'cuda'; JAX chooses it"),
        ({"policy_kwargs": {"net_arch": {"pi": [4], "vf": [8]}}}, r"has pi=\[4\] and vf=\[8\]"),
        ({"policy_kwargs": {"ortho_init": False}}, "policy_kwargs has ortho_init; here are hidden"),
        ({"learning_rate": lambda left: left**2}, "is not constant or linear; it must be a number"),
        ({"learning_rate": len}, r"learning_rate is a function that fails \(object of type"),
        ({"n_epochs": 3}, "epochs is given twice, also as n_epochs"),
        ({"env": Target(), "num_envs": 4}, "num_envs is 4, but 1 environments came in"),
    ],
)
def test_wrong_arguments_are_errors(arguments, message):
    with pytest.raises(UsageError, match=message):
        learner(**arguments)


TYPES = """
import numpy as np
from capo import PPO, UsageError
for wrong in (
    {"seed": None}, {"hidden": 64}, {"num_envs": 4.0}, {"clip": "0.2"}, {"learning_rate": "3e-4"}
):
    try:
        PPO("MlpPolicy", "CartPole-v1", **wrong)
    except UsageError as error:
        print(error)
model = PPO("MlpPolicy", "CartPole-v1", num_envs=np.int64(2), clip=np.float32(0.25), hidden=[4, 4])
print(repr((model.config.num_envs, model.config.clip, model.config.hidden)))
try:
    model.learn(64.5)
except UsageError as error:
    print(error)
"""


def test_values_of_another_type_are_named():
    """In a process of its own: here, every annotation is checked before the function runs."""
    done = subprocess.run([sys.executable, "-c", TYPES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "seed is None; it must be a whole number",
        "hidden is 64; it must be a list of whole numbers",
        "num_envs is 4.0; it must be a whole number",
        "clip is '0.2'; it must be a number",
        "learning_rate is '3e-4'; it must be a number",
        "(2, 0.25, (4, 4))",
        "total_steps is 64.5; it must be a whole number",
    ]


def test_names_of_stable_baselines3_are_taken_and_in_the_table():
    with pytest.warns(UserWarning, match="n_steps is num_steps in capo"):
        model = PPO("MlpPolicy", Target, n_steps=16, num_envs=4, minibatches=4, hidden=(4,))
    assert repr(model) == "PPO('Target', seed=1, 0 steps learned)"
    assert model.config.num_steps == 16
    table = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text()
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    for theirs, ours in SAME.items():
        assert any(f"`{theirs}`" in row and f"`{ours}`" in row for row in rows), theirs
    for name in (OTHER.keys() | MEANT) - {
        "total_steps",
        "total_timesteps",
        "algo",
        "env_id",
        "network",
    }:
        assert any(f"`{name}" in row for row in rows), name


def test_values_of_stable_baselines3_are_translated():
    """As a script for SB3 gives them, with the classes of its activations."""

    class ReLU:
        """A stand-in of torch.nn.ReLU, of which the name is read."""

    given = {
        "n_envs": 4, "n_steps": 16, "batch_size": 32, "n_epochs": 3, "ent_coef": 0.1,
        "learning_rate": lambda left: 1e-3 * left, "clip_range": lambda _: 0.1,
        "normalize_advantage": False, "use_sde": False, "verbose": 1, "device": "auto",
        "policy_kwargs": {
            "net_arch": {"pi": [8, 8], "vf": [8, 8]}, "activation_fn": ReLU, "log_std_init": -2,
        },
    }  # fmt: skip
    with pytest.warns(UserWarning):
        config = PPO("MlpPolicy", Target, **given).config
    assert config == config.replace(
        num_envs=4, num_steps=16, minibatches=2, epochs=3, entropy_coef=0.1, clip=0.1,
        learning_rate=1e-3, schedule="linear", advantage_norm="none", hidden=(8, 8),
        activation="relu", initial_std=float(np.exp(-2)),
    )  # fmt: skip
    with pytest.warns(UserWarning):
        constant = PPO("MlpPolicy", Target, batch_size=64, learning_rate=lambda _: 1e-3).config
    assert (constant.schedule, constant.learning_rate) == ("constant", 1e-3)
    assert constant.minibatches == 16
    with pytest.raises(UsageError, match="batch_size is 48; it must divide the 1024 samples"):
        PPO("MlpPolicy", Target, batch_size=48)


def test_editors_know_the_keywords():
    """The typed keywords are the fields of the configuration, with their types or wider ones."""
    hints = get_type_hints(Config)
    left = {"env_id", "algo", "total_steps", "network", "seed"}
    typed = {name: hint for name, hint in get_type_hints(Keywords).items() if name in hints}
    assert typed.keys() == hints.keys() - left
    wider = {"env_kwargs", "wrappers", "hidden", "learning_rate"}
    assert {n: typed[n] for n in typed.keys() - wider} == {
        n: hints[n] for n in typed.keys() - wider
    }
    shown = inspect.signature(CAPO).parameters
    assert set(shown) == {"policy", "env", "seed"} | typed.keys()
    assert shown["gamma"].default == Config.gamma
    stable = get_type_hints(StableNames).keys()
    assert stable == SAME.keys() | MEANT.keys() | {"batch_size"}


def test_a_model_is_loaded_with_other_settings(tmp_path):
    model = learn(2)
    model.save(tmp_path / "m")
    other = PPO.load(tmp_path / "m", env=Target, learning_rate=1e-4, epochs=2)
    assert (other.config.learning_rate, other.config.epochs) == (1e-4, 2)
    assert same(other.policy, model.policy)
    with pytest.warns(UserWarning, match="batch_size=32 is minibatches=2 in capo"):
        assert PPO.load(tmp_path / "m", env=Target, batch_size=32).config.minibatches == 2
    kwargs = PPO.load(tmp_path / "m", env_kwargs={"g": 1.0}).config.env_kwargs
    assert kwargs == '{"g": 1.0}'
    with pytest.raises(UsageError, match=r"preset decides other settings; use PPO\.from_model"):
        PPO.load(tmp_path / "m", env=Target, preset="paper")
    with pytest.raises(UsageError, match="hidden cannot change: the model's networks have theirs"):
        PPO.load(tmp_path / "m", env=Target, hidden=(3,))


@pytest.mark.parametrize("cls", [CAPO, TRPO])
def test_any_method_goes_on_from_a_model(cls):
    model = learn(2)
    other = cls.from_model(model.model, env=Target, num_envs=2, num_steps=32, minibatches=2)
    assert same(other.policy, model.policy)
    assert other.config.algo == cls.algo
    assert other.config.hidden == model.config.hidden
    assert other.config.epochs == Config.epochs, "a setting of the class"
    small = {"num_envs": 2, "num_steps": 32, "minibatches": 2}
    closest = cls.from_model(model.model, env=Target, preset="paper", **small).config
    assert (closest.preset, closest.truncation) == ("paper", "terminate")
    assert other.learn(64, progress_bar=False).model.obs_stats.seen == 3 * 64


def test_values_and_environments_can_be_had():
    model = learn(2)
    env = model.get_env()
    assert env.num_envs == model.config.num_envs
    obs = np.array([[-1.0], [1.0]], np.float32)
    values = model.predict_values(obs)
    assert values.shape == (2,)
    np.testing.assert_allclose(model.predict_values(obs[0]), values[0], rtol=1e-6)


def test_a_whole_float_is_a_number_of_steps():
    assert learner().learn(1e2, progress_bar=False).num_timesteps == 64


def test_too_few_steps_are_refused_and_change_nothing():
    model = learner()
    for done in (0, 2 * BATCH):
        assert model.num_timesteps == done
        with pytest.raises(UsageError, match="10 steps are fewer than one batch"):
            model.learn(10)
        model.learn(2 * BATCH, progress_bar=False)


class Tripping(Target):
    """An endless episode that raises twice: in the middle of the second and of a first batch."""

    length = 10**9
    steps = resets = 0

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)

    def step(self, action):
        self.steps += 1
        if self.steps in (100, 250):
            raise RuntimeError("tripped")
        return super().step(action)


def test_after_an_error_episodes_start_over():
    env = Tripping()
    model = learner(env=env, num_envs=1, num_steps=64)
    with pytest.raises(EnvError, match="tripped"):
        model.learn(3 * BATCH, progress_bar=False)
    assert (model.num_timesteps, env.resets) == (BATCH, 1)
    model.learn(BATCH, progress_bar=False)
    assert (model.num_timesteps, env.resets) == (2 * BATCH, 2)
    model.learn(BATCH, progress_bar=False)
    assert env.resets == 2, "nothing happened in between"
    with pytest.raises(EnvError, match="tripped"):
        model.learn(BATCH, progress_bar=False)
    model.learn(BATCH, progress_bar=False)
    assert (model.num_timesteps, env.resets) == (4 * BATCH, 3)


def test_a_task_that_has_changed_is_noticed_when_learning(tmp_path):
    gym.register("Changing-v0", Target)
    model = learn(1, env="Changing-v0")
    model.save(tmp_path / "m")
    gym.registry["Changing-v0"].entry_point = Seen
    with pytest.raises(UsageError, match="does not fit Changing-v0: the observation space of"):
        PPO.load(tmp_path / "m").learn(BATCH, progress_bar=False)
    del gym.registry["Changing-v0"]


def test_learn_writes_a_run_folder(tmp_path, capsys):
    model = learner().learn(3 * BATCH, run_dir=tmp_path / "run")
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["steps"] for row in rows] == [64, 128, 192]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["hidden"] == [16]
    result = json.loads((tmp_path / "run" / "eval.json").read_text())
    assert result["returns"] == model.evaluate(20).returns
    assert "192/192 steps" in capsys.readouterr().out
    with pytest.raises(UsageError, match="already holds a run"):
        model.learn(BATCH, run_dir=tmp_path / "run")
