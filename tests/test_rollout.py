"""Advantages compared with a plain loop, and the contents of a batch."""

import itertools

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from capo.core.advantages import gae
from capo.core.normalize import RunningStats, discounted_returns
from capo.errors import EnvError
from capo.methods import settle
from capo.rollout import Collector, collect
from capo.state import init
from support.learners import learner
from support.probes import Probe, small, vector


def plain_gae(rewards, values, next_values, terminated, truncated, gamma, lam):
    """The sum Σ_l (γλ)^l δ_{t+l}, cut where the episode ends."""
    steps = len(rewards)
    out = np.zeros(steps)
    for t in range(steps):
        weight = 1.0
        for later in range(t, steps):
            bootstrap = 0.0 if terminated[later] else gamma * next_values[later]
            out[t] += weight * (rewards[later] + bootstrap - values[later])
            if terminated[later] or truncated[later]:
                break
            weight *= gamma * lam
    return out


@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_gae_with_all_patterns_of_episode_ends(lam, float64):
    """All 3⁴ patterns of continuing, terminating and truncating over four steps."""
    rng = np.random.default_rng(0)
    patterns = np.array(list(itertools.product(range(3), repeat=4))).T
    terminated, truncated = patterns == 1, patterns == 2
    rewards, values, next_values = rng.standard_normal((3, *patterns.shape))
    arrays = [jnp.asarray(x) for x in (rewards, values, next_values, terminated, truncated)]
    found = gae(*arrays, 0.9, lam)
    for i in range(patterns.shape[1]):
        columns = (x[:, i] for x in (rewards, values, next_values, terminated, truncated))
        np.testing.assert_allclose(found[:, i], plain_gae(*columns, 0.9, lam), rtol=1e-12)


def test_a_step_both_terminated_and_truncated_does_not_bootstrap(float64):
    one, yes = jnp.ones((1, 1)), jnp.ones((1, 1), bool)
    assert gae(one, one, 100 * one, yes, yes, 0.9, 0.9)[0, 0] == 0.0


class Counter(Probe):
    """Observes the time step; odd copies terminate after 3 steps, even ones truncate."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    copies = itertools.count()

    def __init__(self):
        self.terminates = next(Counter.copies) % 2 == 1

    def see(self):
        return np.full(1, float(self.t))

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        ended = self.t == 3
        return obs, reward, ended and self.terminates, ended and not self.terminates, info


def collect_once(factory, **changes):
    env = vector(factory)
    config = settle(small(**changes), env.observation_space)
    state = init(config, env.observation_space, env.action_space)
    return collect(env, state.policy, Collector.init(env, config), config, 0)


def test_no_transition_is_a_reset():
    collector, batch, episodes = collect_once(Counter)
    obs, after = batch.obs[..., 0], batch.next_obs[..., 0]
    np.testing.assert_array_equal(after, obs + 1)
    np.testing.assert_array_equal(obs[:, 0], np.arange(16) % 3)
    done = batch.terminated | batch.truncated
    np.testing.assert_array_equal(done, after == 3)
    np.testing.assert_array_equal(batch.terminated.any(axis=0), [False, True, False, True])
    assert episodes.returns == [3.0] * 20
    assert episodes.lengths == [3] * 20
    np.testing.assert_array_equal(collector.episode_length, [1, 1, 1, 1])


def test_first_batch_is_normalised_by_its_own_statistics():
    collector, batch, _ = collect_once(Counter, normalize_obs=True)
    raw = np.broadcast_to((np.arange(16) % 3)[:, None], (16, 4))
    expected = (raw - raw.mean()) / raw.std()
    np.testing.assert_allclose(batch.obs[..., 0], expected, rtol=1e-5)
    assert collector.obs_stats.seen == 64


def test_later_batches_are_normalised_by_the_statistics_before_them():
    env = vector(Counter)
    config = settle(small(normalize_obs=True), env.observation_space)
    policy = init(config, env.observation_space, env.action_space).policy
    before, _, _ = collect(env, policy, Collector.init(env, config), config, 0)
    after, batch, _ = collect(env, policy, before, config, 1)
    raw = np.broadcast_to((np.arange(16, 32) % 3)[:, None], (16, 4))
    expected = (raw - before.obs_stats.mean) / np.sqrt(before.obs_stats.var)
    np.testing.assert_allclose(batch.obs[..., 0], expected, rtol=1e-5)
    assert not np.allclose(before.obs_stats.mean, after.obs_stats.mean)


def test_running_statistics_match_the_whole_history():
    rng = np.random.default_rng(0)
    blocks = [rng.normal(3, 2, (n, 2)) for n in (1, 5, 40)]
    stats = RunningStats.init((2,))
    for block in blocks:
        stats = stats.update(block)
    whole = np.concatenate(blocks)
    np.testing.assert_allclose(stats.mean, whole.mean(axis=0))
    np.testing.assert_allclose(stats.var, whole.var(axis=0))
    assert stats.seen == 46


def test_normalised_values_are_clipped():
    stats = RunningStats(np.zeros(()), np.full((), 4.0), np.array(10.0))
    np.testing.assert_allclose(stats.normalize(np.array([1.0, -1e6])), [0.5, -10])
    np.testing.assert_allclose(stats.scale(np.array([3.0, 1e6])), [1.5, 10])


def test_discounted_returns_by_hand():
    rewards, done = np.ones((4, 1)), np.array([[False], [True], [False], [False]])
    found, left = discounted_returns(rewards, done, np.array([2.0]), 0.5)
    np.testing.assert_allclose(found[:, 0], [2.0, 2.0, 1.0, 1.5])
    np.testing.assert_allclose(left, [1.5])


class Broken(Probe):
    """Copy 2 misbehaves at its fifth step."""

    length = 100
    copies = itertools.count()

    def __init__(self, fault):
        self.fault, self.bad = fault, next(Broken.copies) % 4 == 2

    def step(self, action):
        obs, reward, *rest = super().step(action)
        if self.bad and self.t == 5:
            obs, reward = self.fault(obs, reward)
        return obs, reward, *rest


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda o, r: (o * np.nan, r), "environment 2 returned a non-finite observation at step 5"),
        (lambda o, r: 1 / 0, "environment 2 failed at step 5 with ZeroDivisionError: division by"),
        (lambda o, r: (o, np.inf), "environment 2 returned a non-finite reward at step 5"),
        (lambda o, r: (np.zeros(3), r), r"environment 2 .* at step 5: .* shape \(1,\), not \(3,\)"),
    ],
)
def test_a_broken_environment_is_named(fault, message):
    with pytest.raises(EnvError, match=message):
        collect_once(lambda: Broken(fault))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda o, r: (o, 1e39), "a too large reward at step 5"),
        (lambda o, r: (np.full(1, 1e25), r), r"a too large observation at step 5 .* 1e\+25 overfl"),
        (lambda o, r: (np.full(1, -1e300), r), "a too large observation at step 5"),
    ],
)
def test_values_that_would_overflow_are_named(fault, message):
    """Statistics of float32 observations are in float32, those of rewards in float64."""

    class Far(Broken):
        dtype = np.float32 if "overfl" in message else np.float64
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), dtype)

        def see(self):
            return np.zeros(1, self.dtype)

        def step(self, action):
            obs, *rest = super().step(action)
            return obs.astype(self.dtype), *rest

    with pytest.raises(EnvError, match=f"^probe: environment 2 returned {message}"):
        collect_once(lambda: Far(fault))


class Halfway(gym.Env):
    """Episodes of two steps; every other one succeeds."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.episodes = 0, self.episodes + 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        info = {"is_success": self.episodes % 2 == 1}
        return np.zeros(1, np.float32), 0.0, self.t == 2, False, info


def test_success_is_counted_in_training_and_evaluation():
    rows = []
    model = learner(env=Halfway, num_envs=2, num_steps=6, minibatches=1)
    model.learn(24, callback=lambda _, info: rows.append(info), progress_bar=False)
    # Three episodes of each environment in a batch: success, failure, success; then the rest.
    assert [row["success_rate"] for row in rows] == [4 / 6, 6 / 12]
    result = model.evaluate(4)
    assert result.success_rate == 1.0, "the first episode of each of four environments"
    assert result.describe().endswith("length 2, success 100%")
    assert result.to_dict()["success_rate"] == 1.0
