"""Diagnostics of the updates of a run: experts, consensus, Theorem 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo import Config, generations
from capo.core import consensus
from capo.core.consensus import PENALTY, theorem_metrics, tree_pick
from capo.core.families import DiagGaussian
from capo.core.fisher import Experience, Geometry
from capo.core.natural_gradient import TOLERANCE
from capo.core.networks import to_host
from capo.diagnostics.online import agreement, diagnose, diagnosed_generations
from support.policies import FAMILIES, OBS, each_family, fresh_policy, make_experts
from support.probes import Target, small, vector


def test_which_generations_are_diagnosed():
    def of(generations, every=None):
        return sorted(
            diagnosed_generations(Config("x", total_steps=1024 * generations, diagnostics=every))
        )

    assert of(244) == [0, 24, 48, 73, 97, 122, 146, 170, 195, 219, 243]
    assert of(3) == [0, 1, 2]
    assert of(20, every=8) == [7, 15, 19]
    assert of(20, every=1) == list(range(20))
    assert of(20, every=0) == []


def test_correlations_of_constructed_updates():
    """Updates with equal signal, and wastes that share half their squared length."""
    c = np.full(3, 2.0)
    wastes = np.eye(3) + 1.0  # Gram matrix: squared length 2, inner product 1
    found = agreement(c, np.outer(c, c) + wastes)
    assert found["rho_signal"] == 1
    np.testing.assert_allclose(found["rho_waste"], 0.5)
    np.testing.assert_allclose(found["rho_total"], 5 / 6)
    np.testing.assert_allclose(found["waste_ratio_predicted"], 1 / 3 + 2 / 3 * 0.5)
    np.testing.assert_allclose(found["waste_ratio_predicted"], np.mean(wastes) / 2)
    np.testing.assert_allclose(found["expert_alignment"], 4 / 6)
    assert found["signal_spread"] == 0


def situation(family, width=4, distinct=True):
    """An incumbent, experts around it, and a batch."""
    experts = make_experts(family, width, distinct)
    incumbent = to_host(fresh_policy(0, 3, family, (8,)))
    rng = np.random.default_rng(0)
    obs = np.asarray(OBS)
    dist = incumbent(obs)
    actions = family.sample(dist, family.draw(rng, dist.shape[:-1]))
    data = Experience(obs, actions, rng.standard_normal(len(obs)))
    return incumbent, experts, data


@each_family
def test_the_average_keeps_the_signal_and_loses_waste(family):
    incumbent, experts, data = situation(family)
    taken = to_host(consensus.average(experts).policy)
    policies = to_host(experts.policy)
    row = diagnose(incumbent, policies, taken, data)
    geometry = Geometry(family, incumbent, data)
    updates = [geometry.flat(tree_pick(policies, k)) - geometry.theta for k in range(4)]
    wastes = [u - geometry.decompose(tree_pick(policies, k)).c * geometry.natural.x
              / geometry.natural.norm for k, u in enumerate(updates)]  # fmt: skip
    sizes = [w @ geometry.product(w) for w in wastes]
    mean = np.mean(wastes, axis=0)
    expected = mean @ geometry.product(mean) / np.mean(sizes)
    # The average is taken in float32.
    np.testing.assert_allclose(row["consensus/waste_ratio"], expected, rtol=1e-4)
    np.testing.assert_allclose(row["consensus/signal_kept"], 1, rtol=1e-4)
    np.testing.assert_allclose(row["consensus/q_signal_kept"], 1, rtol=1e-9)
    assert row["consensus/waste_ratio"] < 0.9
    assert row["consensus/q_waste_ratio"] < 0.9
    assert -1 <= row["consensus/rho_waste"] <= 1


@each_family
def test_identical_experts_agree_in_everything(family):
    incumbent, experts, data = situation(family, distinct=False)
    taken = to_host(consensus.average(experts).policy)
    row = diagnose(incumbent, to_host(experts.policy), taken, data)
    for name in ("rho_signal", "rho_waste", "rho_total", "signal_kept", "waste_ratio",
                 "waste_ratio_predicted", "q_waste_ratio", "q_signal_kept"):  # fmt: skip
        np.testing.assert_allclose(row[f"consensus/{name}"], 1, rtol=1e-6, err_msg=name)


def test_for_small_updates_the_splits_in_natural_and_network_parameters_agree():
    """For tiny updates Δη = J Δ, so both splits are the same."""
    incumbent, experts, data = situation(DiagGaussian(2))
    with jax.enable_x64(True):
        start = jax.tree.map(lambda x: np.asarray(x, np.float64), incumbent)
        near = [
            jax.tree.map(
                lambda a, b: np.asarray(a + 1e-5 * (np.asarray(b, np.float64) - a)),
                start,
                tree_pick(to_host(experts.policy), k),
            )
            for k in range(4)
        ]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *near)
        taken = jax.tree.map(lambda x: x.mean(axis=0), stacked)
        row = diagnose(start, stacked, taken, data)
    # The first order in the step, 1e-5 of the experts' distance.
    for name in ("signal", "waste", "alignment"):
        np.testing.assert_allclose(row[f"consensus/q_{name}"], row[f"fisher/{name}"], rtol=1e-3)
    ratios = row["consensus/q_waste_ratio"], row["consensus/waste_ratio"]
    np.testing.assert_allclose(*ratios, rtol=1e-3)


def theorem_of(family, incumbent, experts, network, data):
    gains = jnp.asarray(data.advantages, float)
    compiled = jax.jit(theorem_metrics, static_argnums=(0, 6))
    return compiled(family, incumbent, experts, network, jnp.asarray(data.actions), gains, 0.02)


@each_family
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_the_pool_never_breaks_theorem_1(family, scale, float64):
    _, _, data = situation(family)
    rng = np.random.default_rng(1)
    start = jnp.asarray(rng.standard_normal((32, family.size)))
    experts = start + scale * jnp.asarray(rng.standard_normal((5, 32, family.size)))
    found = theorem_of(family, start, experts, start, data)
    mean_kl = jnp.mean(jax.vmap(lambda dist: family.kl(start, dist))(experts))
    assert found["consensus/q_violations"] == 0
    assert found["consensus/q_kl"] <= mean_kl
    assert found["consensus/q_gain"] > 0
    # The linear part is the same for q and the mean expert, so the gain is the KL saved.
    saved = PENALTY * (mean_kl - found["consensus/q_kl"])
    np.testing.assert_allclose(found["consensus/q_gain"], saved, rtol=1e-6)


@each_family
def test_a_policy_that_violates_theorem_1_is_counted(family, float64):
    _, _, data = situation(family)
    rng = np.random.default_rng(1)
    start = jnp.asarray(rng.standard_normal((32, family.size)))
    experts = start + 1e-3 * jnp.asarray(rng.standard_normal((3, 32, family.size)))
    far = start + 2 * jnp.asarray(rng.standard_normal((32, family.size)))
    advantages = np.zeros(32)
    found = theorem_of(family, start, experts, far, data._replace(advantages=advantages))
    assert found["consensus/violations"] == 3
    assert found["consensus/gain"] < 0
    assert found["consensus/q_violations"] == 0


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-4, 1e-2])
def test_rounding_errors_are_not_counted_as_violations(scale):
    """Experts that agree to the last bits of float32, around a policy of small deviation."""
    family = DiagGaussian(3)
    rng = np.random.default_rng(2)
    start = jnp.asarray(np.concatenate([rng.normal(0, 2, (512, 3)), np.full((512, 3), -2.0)], 1))
    start = start.astype(jnp.float32)
    shared = start + jnp.asarray(1e-3 * rng.standard_normal((512, 6)), jnp.float32)
    experts = shared + jnp.asarray(scale * rng.standard_normal((4, 512, 6)), jnp.float32)
    actions = jnp.asarray(start[:, :3] + np.exp(-2) * rng.standard_normal((512, 3)), jnp.float32)
    gains = jnp.asarray(rng.standard_normal(512), jnp.float32)
    found = theorem_metrics(family, start, experts, experts[0], actions, gains, 0.02)
    assert found["consensus/q_violations"] == 0


def test_a_run_reports_the_requested_diagnostics():
    config = small("capo", total_steps=64 * 5, diagnostics=2, warmup=0.0, experts=3)
    env = vector(Target, config.num_envs)
    rows = [g.info for g in generations(config, env)]
    assert [("fisher/signal" in row) for row in rows] == [False, True, False, True, True]
    for row in rows:
        assert row["consensus/q_violations"] == 0
        assert row["consensus/q_kl"] <= row["expert_kl"]
    for row in (rows[1], rows[3], rows[4]):
        np.testing.assert_allclose(row["fisher/kl"], row["kl"], rtol=1e-3)
        np.testing.assert_allclose(
            row["fisher/signal"] + row["fisher/waste"], row["fisher/total"], rtol=1e-9
        )
        assert row["fisher/residual"] <= TOLERANCE
        assert row["consensus/q_waste_ratio"] < 1


@pytest.mark.slow
def test_diagnosing_does_not_change_the_run():
    def last(diagnostics):
        config = small("capo-avg", total_steps=64 * 3, diagnostics=diagnostics, warmup=0.0)
        *_, end = generations(config, vector(Target, config.num_envs))
        return end.state

    looked, not_looked = last(1), last(0)
    jax.tree.map(np.testing.assert_array_equal, looked, not_looked)


def test_experts_without_an_update_give_nan():
    incumbent, _, data = situation(FAMILIES[0])
    still = jax.tree.map(lambda x: np.stack([x, x]), incumbent)
    for gains in (data.advantages, np.zeros(len(data.obs))):
        row = diagnose(incumbent, still, incumbent, data._replace(advantages=gains))
        assert row["fisher/total"] == 0
        assert np.isnan(row["consensus/waste_ratio"])
        assert np.isnan(row["consensus/rho_waste"])


def test_one_expert_has_no_consensus():
    incumbent, experts, data = situation(FAMILIES[0], width=1)
    row = diagnose(incumbent, to_host(experts.policy), to_host(tree_pick(experts.policy, 0)), data)
    assert {name.split("/")[0] for name in row} == {"fisher"}
