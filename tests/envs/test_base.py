"""Both backends have the same tasks, and name what is wrong."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from capo import Config, UsageError
from capo.core.families import to_env
from capo.envs.adapters import env_source
from capo.envs.backends import choose_backend, make
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.registry import import_module_of
from capo.export.render import open_env

# Steps compared, and the largest difference relative to 1 + |value|. The planar tasks agree to
# rounding (rewards are float32 in EnvPool). The backends carry different MuJoCo releases, whose
# contact solvers differ by about 1e-6 in the other tasks; contacts amplify that from step to step.
TASKS = {
    "HalfCheetah-v4": (50, 1e-7),
    "Hopper-v4": (50, 1e-7),
    "Walker2d-v4": (50, 1e-7),
    "Ant-v4": (5, 2e-3),
    "Humanoid-v4": (8, 1e-3),
    "HumanoidStandup-v4": (4, 5e-3),
}


def still_standup():
    """Gymnasium's HumanoidStandup-v4 has no reset_noise_scale: start it where EnvPool does."""
    env = gym.make("HumanoidStandup-v4")
    base = env.unwrapped

    def reset_model():
        base.set_state(base.init_qpos, base.init_qvel)
        return base._get_obs()

    base.reset_model = reset_model
    return env


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS)
def test_backends_give_the_same_trajectory(task):
    if task == "HumanoidStandup-v4":
        first = GymnasiumEnv(still_standup, 2, 0, name=task)
    else:
        first = make(task, 2, 0, "gymnasium", reset_noise_scale=0.0)
    second = make(task, 2, 0, "envpool", reset_noise_scale=0.0)
    np.testing.assert_allclose(first.reset(), second.reset(), atol=1e-12)
    space, rng = first.action_space, np.random.default_rng(0)
    steps, tolerance = TASKS[task]
    moved = 0.0
    for _ in range(steps):
        actions = 0.5 * rng.uniform(space.low, space.high, (2, *space.shape))
        a, b = first.step(actions), second.step(actions)
        np.testing.assert_array_equal(a.terminated, b.terminated)
        for x, y in ((a.next_obs, b.next_obs), (a.reward, b.reward)):
            assert (np.abs(x - y) / (1 + np.abs(x))).max() < tolerance
        moved = max(moved, np.abs(a.next_obs).max())
    assert moved > 0.1


def test_envpool_has_contact_forces():
    """The last 84 numbers a humanoid sees; without post_constraint they are silently zero."""
    env = make("HumanoidStandup-v4", 1, 0, "envpool")
    env.reset()
    seen = [env.step(np.zeros((1, 17))).next_obs[:, -84:] for _ in range(20)]
    assert np.abs(seen).max() > 1


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_autoreset_in_the_same_step(backend):
    env = make("CartPole-v1", 3, 0, backend)
    obs, ended = env.reset(), 0
    push = np.ones(3, int)
    for _ in range(60):
        step = env.step(push)
        done = step.terminated | step.truncated
        ended += done.sum()
        assert (np.abs(step.obs[done]) <= 0.05).all(), "a new episode starts near zero"
        assert (np.abs(step.next_obs[done]).max(axis=1, initial=0) > 0.2).all(), "the old one fell"
        np.testing.assert_array_equal(step.obs[~done], step.next_obs[~done])
        obs = step.obs
    assert ended >= 9
    assert obs.shape == (3, 4)
    env.close()


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_truncation_comes_with_the_final_observation(backend):
    env = make("Pendulum-v1", 2, 0, backend)
    env.reset()
    for t in range(1, 402):
        step = env.step(np.zeros((2, 1)))
        assert step.truncated.all() == (t % 200 == 0)
        assert not step.terminated.any()
        if t % 200 == 0:
            assert not np.allclose(step.obs, step.next_obs)
    env.close()


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_the_seed_determines_the_episodes(backend):
    first = [make("Hopper-v4", 2, seed, backend).reset() for seed in (3, 3, 4)]
    np.testing.assert_array_equal(first[0], first[1])
    assert not np.allclose(first[0], first[2])
    assert not np.allclose(first[0][0], first[0][1]), "the copies differ"


def test_the_automatic_backend_is_envpool_for_gymnasiums_own_tasks():
    assert choose_backend("Hopper-v4", "auto") == "envpool"
    assert choose_backend("Hopper-v4", "gymnasium") == "gymnasium"


def test_a_missing_envpool_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose_backend("Hopper-v4", "auto") == "gymnasium"
    with pytest.raises(UsageError, match="pip install envpool"):
        choose_backend("Hopper-v4", "envpool")


def test_a_module_may_bring_the_environment():
    import_module_of("support.broken_tasks:Slow-v0")
    env = make("support.broken_tasks:Slow-v0", 2, 0)
    assert env.reset().shape == (2, 3)
    with pytest.raises(UsageError, match=r"module of .* cannot be imported: No module named"):
        import_module_of("no_such_module:Joystick-v0")
    for words in (".tasks:Joystick-v0", "a b:Joystick-v0", "::Joystick-v0"):
        with pytest.raises(UsageError, match="is not a module name"):
            import_module_of(words)


def test_making_an_environment_imports_no_module(tmp_path, monkeypatch):
    (tmp_path / "strangers_tasks.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for function in (lambda e: make(e, 1, 0), lambda e: open_env(Config(e), "rgb_array")):
        with pytest.raises(UsageError, match=r"needs the module strangers_tasks.*--env strangers"):
            function("strangers_tasks:CartPole-v1")
    with pytest.raises(SystemExit, match="imported"):
        env_source("strangers_tasks:CartPole-v1")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("Hoper-v4", "Hopper-v4"), ("halfcheetah-v4", "HalfCheetah-v4"), ("CartPole-v7", "CartPole")],
)
def test_an_unknown_environment_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(UsageError, match=f"unknown environment '{name}'; did you mean {nearest}"):
        make(name, 1, 0)


def test_actions_are_clipped_to_the_space():
    box = gym.spaces.Box(-0.4, 0.4, (2,))
    np.testing.assert_allclose(to_env(box, np.array([[9.0, -9.0]])), [[0.4, -0.4]])
    assert to_env(gym.spaces.Discrete(3, start=5), np.array([0, 2])).tolist() == [5, 7]
    shifted = gym.spaces.MultiDiscrete([2, 3], start=[1, -1])
    assert to_env(shifted, np.array([[0, 2]])).tolist() == [[1, 1]]


LIGHT = """
import sys
from capo import Config, learn

for backend in ("gymnasium", "envpool"):
    config = Config("CartPole-v1", algo="ppo", backend=backend, total_steps=64, num_envs=2,
                    num_steps=32, minibatches=2, epochs=1, hidden=(8,))
    learn(config)
    assert "mujoco" not in sys.modules, backend
"""


def test_a_task_without_mujoco_does_not_import_it():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("workers", [0, 1])
def test_mujoco_neither_warns_nor_leaves_a_log(workers, tmp_path):
    """The model of HalfCheetah has an attribute that is deprecated."""
    code = f"""
from capo.envs.backends import make

env = make("HalfCheetah-v4", 2, 1, "gymnasium", {workers})
env.reset()
env.close()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


class Reach(gym.Env):
    """Succeeds in episodes that begin with an even number of an episode."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        return np.zeros(1, np.float32), {"is_success": True}

    def step(self, action):
        done = self.np_random.random() < 0.3
        return np.zeros(1, np.float32), 1.0, done, False, {"is_success": self.episode % 2 == 0}


VECTORS = {
    "function": lambda: Reach,
    "same step": lambda: gym.vector.SyncVectorEnv([Reach] * 3, autoreset_mode="SameStep"),
    "next step": lambda: gym.vector.SyncVectorEnv([Reach] * 3),
}


@pytest.mark.parametrize("made", VECTORS)
def test_the_success_of_an_episode_is_known(made):
    """At the end of an episode alone, and of the episode that ended."""
    env = env_source(VECTORS[made]()).make(3, 0)
    env.reset(0)
    ended = np.zeros(3, int)
    for _ in range(30):
        step = env.step(np.zeros(3, int))
        done = step.terminated | step.truncated
        ended += done
        np.testing.assert_array_equal(step.success[done], (ended[done] % 2 == 0).astype(float))
    env.close()
    assert (ended > 3).all()
