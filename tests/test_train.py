"""The training loop: equalities between methods, repeatability, compilation, warmup."""

from typing import get_type_hints

import jax
import numpy as np
import pytest

from capo import Config, generations
from capo.methods import settle
from capo.train import adapted, learning_rate
from capo.update import _critic_program, _policy_program
from support.equality import same
from support.probes import ALGOS, ActionReward, Target, but_slow, small, vector

GENERATIONS = 4
TIMES = {"seconds", "collect_seconds", "update_seconds", "diagnose_seconds"}


def run(factory=Target, generations_=GENERATIONS, **changes):
    config = small(total_steps=64 * generations_, **changes)
    env = vector(factory, config.num_envs, config.seed)
    return list(generations(config, env))


def facts(rows):
    return [{k: v for k, v in row.info.items() if k not in TIMES} for row in rows]


@pytest.mark.parametrize("algo", but_slow(ALGOS, "capo"))
def test_the_same_seed_gives_the_same_run(algo, tmp_path):
    one, two = run(algo=algo), run(algo=algo)
    files = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for rows, file in zip((one, two), files, strict=True):
        rows[-1].model.save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    np.testing.assert_equal(facts(one), facts(two))
    assert same(one[-1].state, two[-1].state)
    other = run(algo=algo, seed=2)
    assert not same(one[-1].state.policy, other[-1].state.policy)


@pytest.mark.parametrize(
    ("algo", "carry", "factory"),
    [
        ("capo-avg", "incumbent", Target),
        pytest.param("capo-avg", "reset", Target, marks=pytest.mark.slow),
        pytest.param("capo-avg", "average", Target, marks=pytest.mark.slow),
        pytest.param("capo-avg", "best", ActionReward, marks=pytest.mark.slow),
        pytest.param("capo", "best", Target, marks=pytest.mark.slow),
        ("capo", "best", ActionReward),
        pytest.param("capo", "incumbent", Target, marks=pytest.mark.slow),
        pytest.param("best-of-k", "best", Target, marks=pytest.mark.slow),
    ],
)
def test_one_expert_is_ppo_bit_for_bit(algo, carry, factory):
    """Without warmup and with a trust region that does not bind."""
    plain = run(factory, algo="ppo", carry=carry)
    wide = run(factory, algo=algo, carry=carry, experts=1, warmup=0.0, delta=1e6)
    for a, b in zip(plain, wide, strict=True):
        assert same(a.state, b.state)


@pytest.mark.slow
def test_ppo_kx_is_ppo_with_more_epochs_of_the_policy():
    deep = run(algo="ppo-kx", experts=3, generations_=1)
    plain = run(algo="ppo", epochs=12, generations_=1)
    assert same(deep[0].state.policy, plain[0].state.policy)


PROGRAMS = (_policy_program, _critic_program)


@pytest.mark.parametrize("algo", ["ppo", "capo"])
def test_a_run_compiles_each_program_once(algo):
    """Plain PPO compiles one update of the policy; a warmed-up method its own and the warmup's."""
    for program in PROGRAMS:
        program.clear_cache()
    run(algo=algo, warmup=0.5, generations_=4)
    assert [program._cache_size() for program in PROGRAMS] == [1 if algo == "ppo" else 2, 1]


FLOATS = [name for name, hint in get_type_hints(Config).items() if hint in (float, float | None)]
ON = {"target_kl": 0.5, "outer_lr": 0.9, "entropy_coef": 0.01, "entropy_fall": 0.5,
      "adaptive_lr": 0.01, "warmup_floor": 10.0, "warmup": 0.5}  # fmt: skip
"""Values that turn on what is off."""


def test_another_number_is_the_same_program():
    """No float of the configuration is part of a program, so a search compiles once."""
    for program in PROGRAMS:
        program.clear_cache()
    usual = small("capo", **ON)
    run(algo="capo", generations_=2, **ON)
    before = [program._cache_size() for program in PROGRAMS]
    assert before == [2, 1]
    assert len(FLOATS) == 22
    for name in FLOATS:
        other = 0.9 * getattr(usual, name) or 0.01
        run(algo="capo", generations_=2, seed=7, **{**ON, name: other})
        assert [program._cache_size() for program in PROGRAMS] == before, name


def test_warmup_is_plain_ppo_until_its_share_is_spent():
    warm = run(algo="capo", warmup=0.5, generations_=4)
    assert [row.info["warmup"] for row in warm] == [1, 1, 0, 0]
    plain = run(algo="ppo", generations_=4)
    assert same(warm[1].state, plain[1].state)
    assert not same(warm[2].state, plain[2].state)


def test_warmup_ends_early_past_the_floor():
    rows = run(algo="capo", warmup=1.0, warmup_floor=-1e9, generations_=4)
    assert [row.info["warmup"] for row in rows] == [1, 0, 0, 0]


def test_the_incumbents_moments_are_untouched_by_experts():
    rows = run(algo="capo-avg", warmup=0.5, generations_=4)
    assert same(rows[1].state.policy_opt, rows[3].state.policy_opt)
    moving = run(algo="capo-avg", warmup=0.5, generations_=4, carry="average")
    assert not same(moving[1].state.policy_opt, moving[3].state.policy_opt)


def test_reset_starts_from_empty_moments():
    state = run(algo="capo-avg", carry="reset")[-1].state
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(state.policy_opt))


def test_the_learning_rate_falls_linearly_whatever_the_method():
    config = small("ppo-kx", total_steps=640)
    rates = [learning_rate(config, g) for g in range(10)]
    np.testing.assert_allclose(rates, 1e-2 * (1 - np.arange(10) / 10))
    assert learning_rate(config.replace(schedule="constant"), 9) == 1e-2


def test_a_trapezoid_is_constant_and_then_falls_to_zero():
    config = small("ppo", total_steps=640, schedule="trapezoid", decay=0.4)
    rates = [learning_rate(config, g) for g in range(10)]
    left = 1 - np.arange(10) / 10
    np.testing.assert_allclose(rates, 1e-2 * np.minimum(1, left / 0.4))
    assert learning_rate(config.replace(decay=0.0), 9) == 1e-2


def test_an_adaptive_rate_moves_towards_its_target():
    config = small("ppo", adaptive_lr=0.01, learning_rate=1e-3)
    assert adapted(config, 1.0, 0.03) == 1 / 1.5
    assert adapted(config, 1.0, 0.004) == 1.5
    assert adapted(config, 1.0, 0.01) == 1.0
    assert adapted(config, 9.0, 0.0) == 10.0  # the rate ends at 1e-2
    assert adapted(small("ppo"), 1.0, 0.03) == 1.0
    rows = run(algo="ppo", adaptive_lr=1e-6, generations_=3, schedule="constant")
    rates = [row.info["learning_rate"] for row in rows]
    np.testing.assert_allclose(rates, 1e-2 / 1.5 ** np.arange(3))


def test_counter_keeps_the_counter_and_empties_the_moments():
    state = run(algo="capo-avg", carry="counter", warmup=0.0, generations_=2)[-1].state
    count, *moments = jax.tree.leaves(state.policy_opt)
    assert count == 2 * small().epochs * small().minibatches
    assert all(not np.any(leaf) for leaf in moments)


@pytest.mark.parametrize("algo", but_slow(ALGOS, "ppo"))
def test_every_method_works_with_the_line_search(algo):
    free = run(algo=algo, line_search="off", warmup=0.0, generations_=1)
    rows = run(algo=algo, line_search="on", delta=1e-3, warmup=0.0, generations_=2)
    assert free[0].info["kl"] > 1e-3
    # The KL of the row and of the search may round differently.
    assert all(row.info["kl"] <= 1e-3 * (1 + 1e-3) for row in rows)
    assert all(0 < row.info["step_scale"] < 1 for row in rows)


@pytest.mark.parametrize("diversity", but_slow(["gae-lambda", "bootstrap"], "bootstrap"))
def test_diversity_changes_the_experts(diversity):
    class Longer(Target):
        length = 5

    usual = run(Longer, algo="capo-avg", warmup=0.0, generations_=1)
    other = run(Longer, algo="capo-avg", warmup=0.0, generations_=1, diversity=diversity)
    assert not same(usual[0].state.policy, other[0].state.policy)
    assert same(usual[0].state.critic, other[0].state.critic), "the critic is trained as ever"


@pytest.mark.slow
def test_the_first_generation_learns_as_without_reuse():
    """All batches are the newest one: whole-batch steps and single-batch experts see the same."""
    usual, other = (
        run(algo="ppo", minibatches=1, generations_=1, reuse=n)[0].state.policy for n in (1, 3)
    )
    alike(usual, other)
    usual, other = (
        run(algo="capo-avg", experts=2, warmup=0.0, generations_=1, diversity=name)[0].state.policy
        for name in ("shuffle", "batches")
    )
    alike(usual, other)


def alike(one, other):
    """Equal up to the rounding of sums in another order, after some steps of Adam."""
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("algo", but_slow(["ppo", "trpo", "capo"], "capo"))
def test_later_generations_learn_from_the_earlier_ones(algo):
    changes = {"diversity": "batches", "experts": 2} if algo == "capo" else {"reuse": 2}
    usual = run(algo=algo, warmup=0.0, generations_=3)
    other = run(algo=algo, warmup=0.0, generations_=3, **changes)
    assert not same(usual[-1].state.policy, other[-1].state.policy)
    assert other[0].info["effective_size"] == pytest.approx(1.0)
    assert 0 < other[-1].info["effective_size"] < 1
    assert int(other[-1].state.past.stored) == 3
    assert len(other[-1].state.past.log_prob) == 1


@pytest.mark.parametrize("algo", but_slow(["capo", "capo-avg", "best-of-k"], "best-of-k"))
def test_trpo_as_base_optimizer(algo):
    rows = run(algo=algo, base_optimizer="trpo", warmup=0.0, generations_=3)
    assert all(0 < row.info["expert_kl_max"] <= 0.05 * (1 + 1e-4) for row in rows)
    assert all(row.info["kl"] <= row.info["expert_kl_max"] * 1.01 for row in rows)


@pytest.mark.slow
def test_distillation_can_start_from_the_incumbent():
    """Any aggregation's policy can be refitted from the incumbent, to within the tolerance."""
    plain = run(algo="capo-avg", warmup=0.0, generations_=1)
    fitted = run(
        algo="capo-avg", distill="on", distill_init="incumbent", warmup=0.0, generations_=1
    )
    assert not same(plain[0].state.policy, fitted[0].state.policy)
    info = fitted[0].info
    assert info["distill_kl"] <= 0.01 * info["distill_kl_start"] * 2
    started = run(algo="capo-avg", distill="on", warmup=0.0, generations_=1)
    assert same(plain[0].state.policy, started[0].state.policy)


def test_automatic_values_depend_on_preset_and_method():
    capo, avg = settle(small("capo")), settle(small("capo-avg"))
    assert (capo.carry, capo.distill, capo.line_search) == ("incumbent", "on", "on")
    assert (avg.distill, avg.line_search) == ("off", "off")
    assert settle(small("ppo")).carry == "best"
    paper = settle(small("capo", preset="paper"))
    assert (paper.truncation, paper.distill_init) == ("terminate", "incumbent")
    assert settle(small("ppo", line_search="on")).line_search == "on"
    warm = settle(small("capo", diversity="bootstrap")).lone
    assert (warm.algo, warm.line_search, warm.carry) == ("ppo", "off", "best")


@pytest.mark.slow
def test_truncation_as_termination_changes_what_is_learned():
    class Endless(Target):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, reward, False, self.t % 2 == 0, info

    rows = [run(Endless, truncation=how)[-1] for how in ("bootstrap", "terminate")]
    assert not same(rows[0].state.critic, rows[1].state.critic)
