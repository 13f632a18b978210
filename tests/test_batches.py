"""Experts on the last batches, the default: every space, any K and number of environments."""

import gymnasium as gym
import numpy as np
import pytest

import capo.state
from capo import generations
from capo.errors import UsageError
from capo.methods import settle
from capo.state import init
from support.equality import same
from support.probes import BIT, ActionReward, AllActions, Target, but_slow, small, vector

SLOW = pytest.mark.slow
BATCHES = {"preset": "default", "diversity": "batches", "action_noise": 0.5, "warmup": 0.0}


class TwoSenses(ActionReward):
    """An observation of two parts; action 1 is rewarded."""

    observation_space = gym.spaces.Dict({"a": BIT, "b": gym.spaces.Box(-1, 1, (2,), np.float32)})

    def see(self):
        return {"a": 1, "b": self.np_random.uniform(-1, 1, 2).astype(np.float32)}


def run(factory=Target, count=4, algo="capo-avg", **changes):
    config = small(algo, **{**BATCHES, **changes})
    config = config.replace(total_steps=count * config.batch_size)
    return list(generations(config, vector(factory, config.num_envs)))


def test_one_batch_is_ppo_bit_for_bit():
    """The twin of width: K = 1 of the same machinery."""
    plain = run(algo="ppo", preset="default", action_noise=0.5)[-1].state
    for changes in ({}, {"deviation": "newest", "critic_batches": "all"}):
        found = run(experts=1, **changes)[-1].state
        assert same((plain.policy, plain.critic), (found.policy, found.critic))


@pytest.mark.parametrize(
    "factory",
    but_slow(
        [
            TwoSenses,
            lambda: AllActions(gym.spaces.MultiDiscrete([3, 2])),
            lambda: AllActions(gym.spaces.MultiBinary(2)),
        ],
        TwoSenses,
    ),
)
@pytest.mark.parametrize("algo", ["capo-avg", "capo"])
def test_every_space(algo, factory):
    rows = run(factory, algo=algo, experts=3, diagnostics=1)
    assert all(np.isfinite(row.info["kl"]) and not row.info["nonfinite/experts"] for row in rows)
    assert rows[-1].info["consensus/waste_ratio"] < 1, "an average of different updates"
    assert rows[0].info["effective_size"] == pytest.approx(1.0), "all experts have the one batch"
    assert len(rows[-1].state.past.log_prob) == 2


@pytest.mark.parametrize(
    ("experts", "num_envs", "num_steps"),
    [(2, 1024, 2), *(pytest.param(*each, marks=SLOW) for each in ((1, 1, 16), (64, 4, 4)))],
)
def test_any_number_of_experts_and_environments(experts, num_envs, num_steps):
    sizes = {"experts": experts, "num_envs": num_envs, "num_steps": num_steps}
    rows = run(count=3, **sizes)
    assert all(np.isfinite(row.info["kl"]) for row in rows)
    assert not same(rows[0].state.policy, rows[-1].state.policy)


def test_the_deviation_of_the_newest_batch():
    """Experts differ from the second generation on; the consensus has the first one's deviation."""
    usual, newest = (run(count=2, deviation=name, experts=2) for name in ("all", "newest"))
    assert not np.array_equal(usual[1].state.policy.log_std, newest[1].state.policy.log_std)
    alone = run(count=2, experts=1)
    # The same start and the same first expert: its shuffle depends on its number alone.
    np.testing.assert_allclose(
        newest[0].state.policy.log_std, alone[0].state.policy.log_std, atol=1e-6
    )


@pytest.mark.slow
def test_a_critic_on_all_batches_takes_as_many_steps():
    newest, every = (run(count=3, experts=3, critic_batches=x) for x in ("newest", "all"))
    assert not same(newest[-1].state.critic, every[-1].state.critic)


def test_earlier_batches_have_a_limit(monkeypatch):
    env = vector(Target)
    config = settle(small("capo", **BATCHES, experts=5), env.observation_space)
    spaces = (env.observation_space, env.action_space)
    past = init(config, *spaces).past
    one = sum(leaf.nbytes for leaf in past.batches) / 4
    monkeypatch.setattr(capo.state, "MOST_KEPT", int(3 * one))
    with pytest.raises(UsageError, match=r"the 4 batches before .* use experts=4, a smaller"):
        init(config, *spaces)
    init(config.replace(experts=4), *spaces)
