"""The loop: what equals what, what repeats, what compiles."""

import logging

import jax
import numpy as np
import pytest

from capo import generations
from capo.methods import resolve, warmup_of
from capo.train import learning_rate
from capo.update import _critic_program, _policy_program
from probes import ALGOS, ActionReward, Target, but_slow, small, vector
from test_consensus import same

GENERATIONS = 4
TIMES = {"seconds", "collect_seconds", "update_seconds", "diagnose_seconds"}


def run(factory=Target, generations_=GENERATIONS, **changes):
    config = small(total_steps=64 * generations_, **changes)
    env = vector(factory, config.num_envs, config.seed)
    return list(generations(config, env))


def facts(rows):
    return [{k: v for k, v in row.info.items() if k not in TIMES} for row in rows]


@pytest.mark.parametrize("algo", but_slow(ALGOS, "capo"))
def test_the_same_seed_gives_the_same_run(algo):
    one, two = run(algo=algo), run(algo=algo)
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


@pytest.mark.parametrize("algo", ["ppo", "capo"])
def test_a_run_compiles_each_program_once(algo, caplog):
    """Plain PPO compiles one update of the policy; a warmed-up method its own and the warmup's."""

    def compiled(**changes):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
            run(algo=algo, warmup=0.5, generations_=6, **changes)
        said = [record.getMessage() for record in caplog.records]
        names = ("_policy_program", "_critic_program")
        return [sum(f"Compiling jit({name})" in line for line in said) for name in names]

    for program in (_policy_program, _critic_program):
        program.clear_cache()
    assert compiled() == [1 if algo == "ppo" else 2, 1]
    assert compiled(seed=7, learning_rate=1e-3) == [0, 0], "another seed is the same program"


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
    assert learning_rate(config.replace(anneal_lr=False), 9) == 1e-2


@pytest.mark.parametrize("algo", but_slow(ALGOS, "ppo"))
def test_every_method_can_search_the_line(algo):
    free = run(algo=algo, line_search="off", warmup=0.0, generations_=1)
    rows = run(algo=algo, line_search="on", delta=1e-3, warmup=0.0, generations_=2)
    assert free[0].info["kl"] > 1e-3
    # The KL of the row and of the search may round differently.
    assert all(row.info["kl"] <= 1e-3 * (1 + 1e-3) for row in rows)
    assert all(0 < row.info["step_scale"] < 1 for row in rows)


@pytest.mark.parametrize("algo", but_slow(["ppo", "capo"], "ppo"))
def test_radius_goes_out_to_delta(algo):
    rows = run(algo=algo, line_search="radius", delta=0.3, warmup=0.0, generations_=2)
    assert all(row.info["kl"] == pytest.approx(0.98 * 0.3, rel=0.05) for row in rows)
    assert all(row.info["step_scale"] > 1 for row in rows)


@pytest.mark.parametrize("diversity", but_slow(["gae-lambda", "bootstrap", "subset"], "bootstrap"))
def test_diversity_makes_other_experts(diversity):
    class Longer(Target):
        length = 5

    usual = run(Longer, algo="capo-avg", warmup=0.0, generations_=1)
    other = run(Longer, algo="capo-avg", warmup=0.0, generations_=1, diversity=diversity)
    assert not same(usual[0].state.policy, other[0].state.policy)
    assert same(usual[0].state.critic, other[0].state.critic), "the critic is trained as ever"


@pytest.mark.parametrize("algo", but_slow(["capo", "capo-avg", "best-of-k"], "best-of-k"))
def test_trpo_as_base_optimizer(algo):
    rows = run(algo=algo, base_optimizer="trpo", warmup=0.0, generations_=3)
    assert all(0 < row.info["expert_kl_max"] <= 0.05 * (1 + 1e-4) for row in rows)
    assert all(row.info["kl"] <= row.info["expert_kl_max"] * 1.01 for row in rows)


@pytest.mark.slow
def test_distillation_from_the_incumbent_is_a_part_of_its_own():
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


def test_auto_is_settled_by_preset_and_method():
    capo, avg = resolve(small("capo")), resolve(small("capo-avg"))
    assert (capo.carry, capo.distill, capo.line_search) == ("incumbent", "on", "on")
    assert (avg.distill, avg.line_search) == ("off", "off")
    assert resolve(small("ppo")).carry == "best"
    paper = resolve(small("capo", preset="paper"))
    assert (paper.truncation, paper.distill_init) == ("terminate", "incumbent")
    assert resolve(small("ppo", line_search="radius")).line_search == "radius"
    warm = warmup_of(resolve(small("capo", diversity="subset")))
    assert (warm.algo, warm.line_search, warm.carry) == ("ppo", "off", "best")


@pytest.mark.slow
def test_truncation_as_termination_changes_what_is_learned():
    class Endless(Target):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, reward, False, self.t % 2 == 0, info

    rows = [run(Endless, truncation=how)[-1] for how in ("bootstrap", "terminate")]
    assert not same(rows[0].state.critic, rows[1].state.critic)
