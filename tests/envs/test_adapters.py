"""All kinds of environments that a user may pass give the same transitions."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from capo import UsageError
from capo.envs.adapters import env_source
from capo.envs.gymnasium import GymnasiumEnv
from support.equality import observation_leaves
from support.probes import Probe

ENVS = 3


class Parts(gym.ObservationWrapper):
    """CartPole in two parts, one of them a tuple."""

    def __init__(self, env):
        super().__init__(env)
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"cart": box, "pole": gym.spaces.Tuple([box, gym.spaces.Discrete(2)])}
        )

    def observation(self, obs):
        return {"cart": obs[:2], "pole": (obs[2:], int(obs[2] > 0))}


def whole():
    return gym.make("CartPole-v1")


def parts():
    return Parts(whole())


def assert_same(a, b):
    for x, y in zip(observation_leaves(a), observation_leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("factory", [whole, parts])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_in_every_autoreset_mode(kind, mode, factory):
    ours = GymnasiumEnv(factory, ENVS, seed=5)
    given = kind([factory] * ENVS, autoreset_mode=mode)
    source = env_source(given)
    theirs = source.make(99, 5)
    assert (source.fixed_num_envs, theirs.num_envs) == (ENVS, ENVS)
    assert theirs.observation_space == ours.observation_space
    assert_same(ours.reset(), theirs.reset())
    rng, ended = np.random.default_rng(0), 0
    for _ in range(60):
        actions = rng.integers(0, 2, ENVS)
        one, two = ours.step(actions), theirs.step(actions)
        assert_same(one.obs, two.obs)
        assert_same(one.next_obs, two.next_obs)
        for a, b in zip(one[2:5], two[2:5], strict=True):
            np.testing.assert_array_equal(a, b)
        ended += one.terminated.sum()
    assert ended >= 3
    given.close()


def test_an_environment_object_is_used_directly():
    env = gym.make("CartPole-v1")
    source = env_source(env)
    assert (source.name, source.fixed_num_envs) == ("CartPole-v1", 1)
    made = source.make(8, 0)
    assert made.num_envs == 1
    assert_same(made.reset()[0], GymnasiumEnv(whole, 1, 0).reset()[0])


def test_a_function_is_called_for_each_environment():
    source = env_source(Probe)
    assert (source.name, source.fixed_num_envs) == ("Probe", None)
    assert source.make(3, 0).reset().shape == (3, 1)


def test_an_envpool_object_equals_its_id():
    envpool = pytest.importorskip("envpool")
    given = env_source(envpool.make("Hopper-v4", env_type="gymnasium", num_envs=2, seed=3))
    assert (given.name, given.fixed_num_envs) == ("GymHopper", 2)
    ours, theirs = env_source("Hopper-v4", "envpool").make(2, 3), given.make(2, 3)
    assert_same(ours.reset(), theirs.reset())
    for _ in range(40):
        one, two = ours.step(np.ones((2, 3))), theirs.step(np.ones((2, 3)))
        assert_same(one.obs, two.obs)
        assert_same(one.next_obs, two.next_obs)


def no_shared_memory():
    return AsyncVectorEnv([whole], shared_memory=False)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("make", [no_shared_memory, lambda: gym.make_vec("CartPole-v1", 2)])
def test_next_step_autoreset_is_an_error(make):
    env = make()
    with pytest.raises(UsageError, match=r"resets in the step after .* autoreset_mode=SAME_STEP"):
        env_source(env).make(2, 0)
    env.close()


def test_other_objects_are_an_error():
    with pytest.raises(UsageError, match=r"an environment is an id, .* not int"):
        env_source(3)
    with pytest.raises(UsageError, match=r"must make a gymnasium.Env, it made dict"):
        env_source(dict)
    envpool = pytest.importorskip("envpool")
    with pytest.raises(UsageError, match=r'env_type="gymnasium"'):
        env_source(envpool.make("CartPole-v1", env_type="dm", num_envs=2))
    with pytest.raises(UsageError, match="batch_size = num_envs"):
        env_source(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, batch_size=2))
