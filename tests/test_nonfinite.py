"""Non-finite experts, updates and runs are left out, undone and stopped."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import capo.update
from capo import NonFiniteError, generations
from capo.cli.main import _run
from capo.core import consensus
from capo.core.consensus import theorem_metrics
from capo.core.families import DiagGaussian
from capo.core.masking import all_finite, finite_rows, replace_nonfinite
from support.equality import same
from support.nan_injection import FAULTS, faulty
from support.policies import each_family, make_experts, random_dist
from support.probes import ALGOS, Target, but_slow, small, vector

AGGREGATES = [consensus.average, consensus.logop, consensus.best]
LEFT_OUT = [(0,), (2, 3)]


def spoilt(tree, rows):
    """A stack with NaN in some rows."""
    return jax.tree.map(lambda x: x.at[jnp.array(rows)].set(jnp.nan), tree)


def without(tree, rows):
    return jax.tree.map(lambda x: jnp.delete(x, np.array(rows), axis=0), tree)


def assert_close(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


@each_family
@pytest.mark.parametrize("bad", LEFT_OUT, ids=str)
def test_logop_ignores_non_finite_experts(family, bad, float64):
    dists = random_dist(family, np.random.default_rng(0), (4, 20))
    found = family.logop(spoilt(dists, bad), finite_rows(spoilt(dists, bad)))
    np.testing.assert_allclose(found, family.logop(without(dists, bad)), atol=1e-12)


@each_family
@pytest.mark.parametrize("bad", LEFT_OUT, ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_consensus_ignores_non_finite_experts(aggregate, bad, family):
    experts = make_experts(family, 4)
    broken = spoilt(experts, bad)
    good = finite_rows(broken)
    np.testing.assert_array_equal(np.flatnonzero(~good), bad)
    found, expected = (
        jax.jit(aggregate)(few) for few in (broken._replace(good=good), without(experts, bad))
    )
    assert_close(found, expected, rtol=1e-5, atol=1e-6)


@each_family
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_identical_finite_experts_give_themselves(aggregate, family):
    experts = make_experts(family, 5, distinct=False)
    broken = spoilt(experts, (0, 3))
    policy, _ = aggregate(broken._replace(good=finite_rows(broken)))
    assert same(policy, consensus.tree_pick(experts.policy, 0)), "bit for bit"


def test_theorem_1_is_checked_for_finite_experts(float64):
    rng, family = np.random.default_rng(1), DiagGaussian(2)
    start, network = (random_dist(family, rng, (20,)) for _ in range(2))
    dists = random_dist(family, rng, (4, 20))
    actions = jnp.asarray(family.sample(np.asarray(start), family.draw(rng, (20,))))
    gains = jnp.asarray(rng.standard_normal(20))
    good = jnp.array([False, True, True, False])
    check = jax.jit(functools.partial(theorem_metrics, family, delta=0.02))
    found = check(start, spoilt(dists, (0, 3)), network, actions, gains, good=good)
    assert_close(found, check(start, dists[1:3], network, actions, gains), rtol=1e-9)


def test_only_non_finite_entries_are_replaced():
    tree = {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.arange(3)}
    assert same(replace_nonfinite(tree, jnp.ones(3, bool)), tree)
    mended = replace_nonfinite(tree, jnp.array([False, True, False]))
    np.testing.assert_array_equal(mended["a"], [[2, 3]] * 3)
    np.testing.assert_array_equal(mended["b"], [1, 1, 1])
    assert not all_finite({**tree, "c": jnp.array([1.0, jnp.inf])})


SCHEDULE = {
    1: "experts",
    3: "expert",
    5: "loss",
    7: "gradient",
    9: "moments",
    11: "critic",
    13: "critic",
    14: "experts",
    15: "critic",
}
"""A run with every fault, and three generations in a row at the end."""
WIDTH = 3


class Story(NamedTuple):
    """The record of such a run."""

    algo: str
    rows: list[Any]
    updates: list[Any]
    error: NonFiniteError

    def counts(self, name):
        """In which generations something was not finite, and how many."""
        found = ((row.number, row.info[f"nonfinite/{name}"]) for row in self.rows)
        return {number: int(count) for number, count in found if count}


def tell(config, start=None):
    env = vector(Target, config.num_envs, config.seed)
    env.reset()
    rows, updates, honest = [], [], capo.update.improve
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("capo.train.improve", lambda *a: updates.append(honest(*a)) or updates[-1])
        patch.setattr("capo.train.diagnose", lambda *_: {"fisher/alignment": 0.5})
        with pytest.raises(NonFiniteError) as error:
            for row in generations(config, env, start):
                rows.append(row)
    return Story(config.algo, rows, updates, error.value)


@pytest.mark.parametrize("algo", but_slow(ALGOS, "trpo"))
def test_a_run_survives_every_fault_and_stops_after_three_in_a_row(algo):
    carry = {"capo-avg": "average", "best-of-k": "best"}.get(algo, "auto")
    changes = {"experts": WIDTH, "warmup": 0.0, "diagnostics": 1, "carry": carry}
    config = small(algo, total_steps=64 * 20, **changes)
    with faulty(config, SCHEDULE):
        story = tell(config)
        resumed = tell(config, story.rows[14])
    bad_experts_are_counted(story)
    what_is_not_finite_is_kept_as_it_was(story)
    what_is_left_is_finite(story)
    the_policy_is_the_consensus_of_the_other_experts(story)
    it_stops_after_three_in_a_row(story)
    assert [row.number for row in resumed.rows] == [15]
    assert "the critic not finite in generations 13 to 15" in str(resumed.error)


def bad_experts_are_counted(story):
    width = WIDTH if story.algo in ("capo", "capo-avg", "best-of-k") else 1
    steps = {} if story.algo == "trpo" else {5: width, 7: width}
    assert set(SCHEDULE.values()) == set(FAULTS)
    assert story.counts("experts") == {1: width, 3: 1, **steps, 9: 1, 14: width}
    none = {1, 14, *steps} if width > 1 else {1, 3, 9, 14, *steps}
    assert set(story.counts("policy")) == none, "some are enough"
    skipped = [row.number for row in story.rows if "fisher/alignment" not in row.info]
    assert skipped == sorted(story.counts("experts"))


def what_is_not_finite_is_kept_as_it_was(story):
    """Bit for bit, the optimizer state as well; the rest moves."""
    assert story.counts("critic") == {11: 1, 13: 1, 15: 1}
    for row, after in itertools.pairwise(story.rows):
        for name in ("policy", "critic"):
            kept = bool(after.info[f"nonfinite/{name}"])
            old, new = (
                (getattr(r.state, name), getattr(r.state, f"{name}_opt")) for r in (row, after)
            )
            assert kept == same(old[0], new[0])
            assert same(old[1], new[1]) or not kept
        if after.info["nonfinite/policy"]:
            assert after.info["kl"] == pytest.approx(0, abs=1e-6)


def what_is_left_is_finite(story):
    assert all(all_finite(row.state) for row in story.rows)
    lost = story.counts("policy") | story.counts("critic")
    for row in story.rows:
        if row.number not in lost:
            bad = [key for key, value in row.info.items() if not np.isfinite(value)]
            assert bad == [], row.number


def the_policy_is_the_consensus_of_the_other_experts(story):
    for index in (3, 9):
        experts, policy = story.updates[index].experts, story.rows[index].state.policy
        if story.algo == "capo-avg":
            others = consensus.tree_mean(without(experts, [0]))
            assert_close(policy, others, rtol=1e-6, atol=1e-7)
        if story.algo == "best-of-k":
            assert any(same(policy, consensus.tree_pick(experts, k)) for k in (1, 2))


def it_stops_after_three_in_a_row(story):
    assert [row.number for row in story.rows] == list(range(16))
    assert [row.recent.nonfinite for row in story.rows[11:]] == [1, 0, 1, 2, 3]
    experts = story.counts("experts")[14]
    bad = f"{experts} expert{'s' * (experts > 1)}, the policy, the critic"
    wanted = f"probe: {bad} not finite in generations 13 to 15; the networks are the last finite"
    assert str(story.error).startswith(wanted)
    assert "lower learning_rate (it is 0.01)" in str(story.error)


def test_the_command_line_reports_it_in_one_line(capsys):
    def call():
        raise NonFiniteError("probe: the policy")

    assert _run(call) == 1
    assert capsys.readouterr().err == "capo: probe: the policy\n"
