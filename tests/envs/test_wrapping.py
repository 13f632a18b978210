"""Wrappers and arguments of a task: made, recorded, and refused when only a file names them."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from capo import PPO, Config, UsageError
from capo.cli.main import main
from capo.envs import wrapping
from capo.envs.adapters import config_source, env_source
from capo.envs.wrapping import dressing_of, texts_of
from support.commands import TINY

PENDULUM = "Pendulum-v1"
CLIPPED = 'gymnasium.wrappers:ClipReward {"max_reward": 1.0, "min_reward": -1.0}'
MODULE = """
import gymnasium as gym


class Doubled(gym.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * float(reward)


def same(env):
    return env
"""


class Halved(gym.RewardWrapper):
    """Half the reward, without arguments."""

    def reward(self, reward):
        return float(reward) / 2


class Scaled(gym.RewardWrapper):
    """Arguments that Gymnasium does not record."""

    def __init__(self, env, factor):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * float(reward)


@pytest.fixture
def here(elsewhere, tmp_path, monkeypatch):
    """The module `dressed` in the working folder; wrappers and modules as before afterwards."""
    monkeypatch.setattr(wrapping, "_named", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "dressed.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("dressed", None)


def rewards(source, steps=3):
    """The rewards of some steps with action 0."""
    env = source.make(1, 0)
    env.reset()
    paid = [env.step(np.zeros((1, 1), np.float32)).reward[0] for _ in range(steps)]
    env.close()
    return np.array(paid)


def of(**fields):
    return config_source(Config(PENDULUM, backend="gymnasium", **fields))


def test_wrappers_and_arguments_reach_the_environment():
    plain, light = rewards(of()), rewards(of(env_kwargs='{"g": 1.0}'))
    assert (plain < light)[1:].all(), "less gravity pulls down less"
    clipped = rewards(of(wrappers=(CLIPPED,)))
    np.testing.assert_allclose(clipped, np.clip(plain, -1, 1))
    (halved,) = texts_of([Halved])
    np.testing.assert_allclose(rewards(of(wrappers=(halved,))), plain / 2)
    np.testing.assert_allclose(rewards(of(wrappers=(CLIPPED, halved))), clipped / 2)
    np.testing.assert_allclose(rewards(of(wrappers=(halved, CLIPPED))), np.clip(plain / 2, -1, 1))


def test_worker_processes_have_them_too():
    (halved,) = texts_of(["gymnasium.wrappers:TimeAwareObservation"])
    source = of(wrappers=(halved,), env_kwargs='{"g": 1.0}')
    one, two = source.make(4, 0), source.make(4, 0, 2)
    try:
        np.testing.assert_array_equal(one.reset(), two.reset())
        action = np.full((4, 1), 0.5, np.float32)
        for each in zip(one.step(action)[:3], two.step(action)[:3], strict=True):
            np.testing.assert_array_equal(*each)
    finally:
        one.close()
        two.close()


def test_an_environment_that_is_given_is_recorded():
    """Known arguments can be made again; the others are refused later."""
    env = gym.make(PENDULUM, g=9.0, max_episode_steps=50)
    env = gym.wrappers.ClipReward(Halved(env), -1.0, 1.0)
    kwargs, wrappers = dressing_of(env)
    assert json.loads(kwargs) == {"g": 9.0, "max_episode_steps": 50}
    assert wrappers == (f"{__name__}:Halved", CLIPPED)
    again = of(env_kwargs=kwargs, wrappers=wrappers)
    np.testing.assert_allclose(rewards(again), rewards(env_source(lambda: env)))
    assert dressing_of(Scaled(gym.make(PENDULUM), 3)).wrappers == (f"?{__name__}:Scaled",)
    odd = gym.wrappers.TransformReward(gym.make(PENDULUM), abs)
    assert dressing_of(odd).wrappers == ("?gymnasium.wrappers:TransformReward",)
    assert dressing_of(gym.make(PENDULUM)) == wrapping.BARE


def test_a_model_is_evaluated_in_what_it_was_trained_in(tmp_path):
    small = {"num_envs": 1, "num_steps": 64, "minibatches": 1, "hidden": (4,)}
    model = PPO("MlpPolicy", lambda: Scaled(gym.make(PENDULUM), 3), **small)
    model.save(tmp_path / "m")
    with pytest.raises(UsageError, match=r"was given, in \S+:Scaled; give it again"):
        PPO.load(tmp_path / "m").evaluate(1)
    model = PPO("MlpPolicy", PENDULUM, wrappers=[Halved], env_kwargs={"g": 1.0}, **small)
    model.save(tmp_path / "m")
    halved = PPO.load(tmp_path / "m").evaluate(1)
    whole = model.evaluate(1, env=lambda: gym.make(PENDULUM, g=1.0))
    assert halved.mean == pytest.approx(whole.mean / 2)


def test_only_a_person_lets_a_wrapper_in(here, capsys):
    """Neither a saved run nor a model imports a module that the words do not name."""
    named = ["--wrapper", 'dressed:Doubled {"factor": 3}']
    run = ["train", PENDULUM, "--algo", "ppo", *TINY, "--eval-episodes", "0", "--run-dir", "run"]
    assert main([*run, *named]) == 0
    assert (
        f"next:       capo eval run --episodes 100 --wrapper '{named[1]}'"
        in capsys.readouterr().out
    )
    wrapping._named.clear()
    del sys.modules["dressed"]
    said = f"the wrapper {named[1]} is named by a file, so it is not imported"
    for words in (["eval", "run"], ["play", "run", "--out", "a.gif"]):
        assert main(words) == 2
        assert said in (told := capsys.readouterr().err)
        assert f"name it yourself: --wrapper '{named[1]}'" in told
        assert "dressed" not in sys.modules
    assert main(["eval", "run", "--episodes", "1", *named]) == 0
    assert main(["eval", "run", "--episodes", "1", "--wrapper", "none", "--seed", "0"]) == 0


def test_resuming_needs_the_wrapper_named_once(here, capsys):
    run = ["train", PENDULUM, "--algo", "ppo", *TINY, "--eval-episodes", "0", "--run-dir", "run"]
    assert main([*run, "--wrapper", "dressed:same"]) == 0
    wrapping._named.clear()
    more = ["train", "--resume", "run", "--override", "-n", "1k", "--eval-episodes", "0"]
    assert main(more) == 2
    assert "is named by a file" in capsys.readouterr().err
    assert main([*more, "--wrapper=dressed:same"]) == 0
    config = json.loads((here / "run" / "config.json").read_text())
    assert config["wrappers"] == ["dressed:same"]


@pytest.mark.parametrize(
    "wrapper", ["os:system", "gymnasium.wrappers:RecordVideo", "shutil:rmtree"]
)
def test_a_file_cannot_ask_for_anything_else(wrapper):
    with pytest.raises(UsageError, match="is named by a file"):
        of(wrappers=(wrapper,)).make(1, 0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"env_kwargs": "[1]"}, r"env_kwargs is '\[1\]'; write {\"name\": value}"),
        ({"env_kwargs": "{"}, "env_kwargs is '{', which is not JSON"),
        ({"env_kwargs": {"g": abs}}, "env_kwargs must be JSON"),
        ({"env_kwargs": {"weight": 1}}, "does not take its arguments: .*'weight'"),
        ({"wrappers": ["nowhere:Wrapper"]}, "the wrapper nowhere:Wrapper cannot be imported"),
        ({"wrappers": ["gymnasium.wrappers:Nothing"]}, "there is no wrapper Nothing in the module"),
        ({"wrappers": ["gymnasium.wrappers.ClipReward"]}, "is not a wrapper; write module:Class"),
        ({"wrappers": [lambda env: env]}, "is not a wrapper that can be named"),
        ({"wrappers": [len]}, "does not take its arguments"),
    ],
)
def test_wrong_ones_are_one_line(fields, said):
    with pytest.raises(UsageError, match=said) as error:
        PPO("MlpPolicy", PENDULUM, **fields)
    assert "\n" not in str(error.value)


def test_a_given_environment_takes_neither():
    with pytest.raises(UsageError, match="env_kwargs and wrappers are for an id"):
        PPO("MlpPolicy", gym.make(PENDULUM), env_kwargs={"g": 1.0})


def test_a_task_in_the_working_folder_is_found(here):
    """By the installed command, whose path does not begin with the working folder."""
    lines = ["import gymnasium as gym", "gym.register('Near-v0', 'dressed_task:make')"]
    more = ["def make():", f"    return gym.make('{PENDULUM}')"]
    (here / "dressed_task.py").write_text("\n".join([*lines, *more]))
    command = "from capo.cli.main import main; import sys; sys.path.remove(''); sys.exit(main())"
    words = ["train", "dressed_task:Near-v0", *TINY, "-n", "512", "--eval-episodes", "0"]
    done = subprocess.run([sys.executable, "-c", command, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
