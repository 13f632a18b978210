"""The Fisher-vector product against definitions, for every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from capo.core.families import DiagGaussian
from capo.core.fisher import (
    Experience,
    Geometry,
    conjugate_gradient,
    decompose,
    fisher_operator,
)
from capo.core.natural_gradient import TOLERANCE, natural_gradient
from capo.core.networks import to_host
from capo.core.ppo import Samples, Share
from capo.core.trpo import trpo_update
from support.policies import FAMILIES, every_action, fresh_policy, plain_rates
from support.probes import small

VARIANTS = [(family, False) for family in FAMILIES] + [(DiagGaussian(2), True)]
variants = pytest.mark.parametrize(
    ("family", "state_std"), VARIANTS, ids=lambda v: type(v).__name__ if v not in (0, 1) else str(v)
)


def setup(family, state_std):
    """A network of a few dozen parameters, away from its near-zero initial head."""
    policy = fresh_policy(0, 2, family, (3,), state_std)
    flat, _ = ravel_pytree(policy)
    flat = jnp.asarray(flat, float) + 0.3 * jax.random.normal(jax.random.key(1), flat.shape, float)
    unravel_64 = ravel_pytree(jax.tree.map(lambda x: jnp.asarray(x, float), policy))[1]
    obs = jax.random.normal(jax.random.key(2), (7, 2), float)
    return flat, unravel_64, obs


def matrix(flat, unravel, obs):
    """F column by column, from the operator under test."""

    def columns(theta):
        _, product = fisher_operator(unravel(theta), obs)
        return jax.vmap(product)(jnp.eye(flat.size))

    return jax.jit(columns)(flat)


def explicit_fisher(flat, unravel, obs, family):
    """E_s E_a[∇ log π ∇ log πᵀ] by enumerating actions, or by quadrature for the Gaussian."""

    def outer(o):
        dist = unravel(flat)(o)
        if isinstance(family, DiagGaussian):
            nodes, weights = np.polynomial.hermite_e.hermegauss(8)
            grid = np.stack(np.meshgrid(*[nodes] * family.dim), -1).reshape(-1, family.dim)
            mass = np.prod(np.stack(np.meshgrid(*[weights] * family.dim), -1), -1).ravel()
            actions = dist[: family.dim] + jnp.exp(dist[family.dim :]) * grid
            mass = mass / mass.sum()
        else:
            actions = every_action(family)
            mass = jnp.exp(jax.vmap(lambda a: family.log_prob(dist, a))(actions))
        score = jax.grad(lambda theta, a: family.log_prob(unravel(theta)(o), a))
        scores = jax.vmap(score, (None, 0))(flat, actions)
        return jnp.einsum("a,ai,aj->ij", mass, scores, scores)

    return jnp.mean(jax.jit(jax.vmap(outer))(obs), axis=0)


@variants
def test_product_is_the_explicit_fisher_matrix(family, state_std, float64):
    flat, unravel, obs = setup(family, state_std)
    expected = explicit_fisher(flat, unravel, obs, family)
    np.testing.assert_allclose(matrix(flat, unravel, obs), expected, atol=1e-10)


@variants
def test_product_is_the_hessian_of_the_kl(family, state_std, float64):
    flat, unravel, obs = setup(family, state_std)
    dist = unravel(flat)(obs)
    hessian = jax.hessian(lambda theta: jnp.mean(family.kl(dist, unravel(theta)(obs))))
    np.testing.assert_allclose(matrix(flat, unravel, obs), jax.jit(hessian)(flat), atol=1e-10)


@variants
def test_product_is_the_natural_parameter_form(family, state_std, float64):
    """F = Jᵀ ∇²A(η) J with J = ∂η/∂θ."""
    flat, unravel, obs = setup(family, state_std)

    def one(o):
        eta = family.natural(unravel(flat)(o))
        jacobian = jax.jacobian(lambda theta: family.natural(unravel(theta)(o)))(flat)
        return jacobian.T @ jax.hessian(family.log_partition)(eta) @ jacobian

    expected = jnp.mean(jax.jit(jax.vmap(one))(obs), axis=0)
    np.testing.assert_allclose(matrix(flat, unravel, obs), expected, atol=1e-9)


def test_conjugate_gradient_solves_the_damped_system(float64):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    matrix, b = jnp.asarray(root @ root.T), jnp.asarray(rng.standard_normal(6))
    x = conjugate_gradient(lambda v: matrix @ v, b, iterations=50, damping=0.1)
    np.testing.assert_allclose(x, np.linalg.solve(matrix + 0.1 * np.eye(6), b), rtol=1e-4)


EXACT = {"damping": 0.0, "tolerance": 1e-12}


def situation(family, state_std, updates=1):
    """π_t, a few updates of it, and a batch with actions of the family's support."""
    flat, unravel, obs = setup(family, state_std)
    rng = np.random.default_rng(3)
    dist = np.asarray(unravel(flat)(obs))
    actions = family.sample(dist, family.draw(rng, dist.shape[:-1]))
    deltas = 0.05 * rng.standard_normal((updates, flat.size))
    after = [to_host(unravel(flat + delta)) for delta in deltas]
    data = Experience(np.asarray(obs), actions, rng.standard_normal(len(obs)))
    return to_host(unravel(flat)), after, deltas, data, (flat, unravel, obs)


@variants
def test_decomposition_is_that_of_the_explicit_fisher_and_its_pseudo_inverse(
    family, state_std, float64
):
    before, (after,), (delta,), data, (flat, unravel, obs) = situation(family, state_std)
    fisher = np.asarray(explicit_fisher(flat, unravel, obs, family))

    actions = jnp.asarray(data.actions)

    def surrogate(theta):
        ratio = jnp.exp(
            family.log_prob(unravel(theta)(obs), actions)
            - family.log_prob(unravel(flat)(obs), actions)
        )
        return jnp.mean(ratio * data.advantages)

    g = np.asarray(jax.grad(surrogate)(flat))
    x = np.linalg.pinv(fisher, rcond=1e-12, hermitian=True) @ g
    norm = np.sqrt(x @ fisher @ x)
    c, total = delta @ fisher @ x / norm, delta @ fisher @ delta
    found = decompose(family, before, after, data, **EXACT)
    expected = (c, c * c, total - c * c, total, c * c / total, c / np.sqrt(total))
    # Eigenvalues reach down to 1e-11 of the largest, so either way rounding leaves about 1e-5.
    np.testing.assert_allclose(found[:6], expected, rtol=1e-4)
    np.testing.assert_allclose(found.gain, g @ delta, rtol=1e-9)
    np.testing.assert_allclose(found.gain_natural, found.gain, rtol=1e-4)
    kl = jnp.mean(family.kl(unravel(flat)(obs), unravel(flat + delta)(obs)))
    np.testing.assert_allclose(found.kl, kl, rtol=1e-9)
    assert found.damping == 0
    assert found.residual <= 1e-12


@variants
def test_signal_and_waste_are_orthogonal_and_add_up(family, state_std, float64):
    before, (after,), (delta,), data, (flat, unravel, _) = situation(family, state_std)
    geometry = Geometry(family, before, data)
    found, natural = geometry.decompose(after), geometry.natural
    unit = natural.x / natural.norm
    waste = delta - found.c * unit
    scale = np.sqrt(found.total)
    assert abs(unit @ geometry.product(waste)) < 1e-10 * scale
    np.testing.assert_allclose(waste @ geometry.product(waste), found.waste, rtol=1e-8)
    np.testing.assert_allclose(found.signal + found.waste, delta @ geometry.product(delta))
    np.testing.assert_allclose(found.kl_quadratic, found.total / 2)
    doubled = geometry.decompose(to_host(unravel(flat + 2 * delta)))
    np.testing.assert_allclose(doubled.c, 2 * found.c, rtol=1e-9)
    np.testing.assert_allclose(doubled.alignment, found.alignment, rtol=1e-9)


def test_stated_residual_and_damping_are_true(float64):
    before, _, _, data, _ = situation(DiagGaussian(2), True)
    exact = Geometry(DiagGaussian(2), before, data, **EXACT)
    for options in ({"damping": 1e-2}, {"damping": 0.0, "iterations": 4}):
        found = natural_gradient(exact.product, exact.gradient, **options)
        left = exact.gradient - exact.product(found.x) - found.damping * found.x
        true = np.linalg.norm(left) / np.linalg.norm(exact.gradient)
        np.testing.assert_allclose(found.residual, true, rtol=1e-6, atol=1e-12)
        assert found.residual <= TOLERANCE
        np.testing.assert_allclose(found.image, exact.product(found.x), rtol=1e-9)
    assert found.iterations == 4
    assert found.damping > 0


def test_exact_solution_needs_no_more_products_than_the_fisher_has_rank(float64):
    before, _, _, data, (flat, unravel, obs) = situation(FAMILIES[1], False)
    fisher = np.asarray(explicit_fisher(flat, unravel, obs, FAMILIES[1]))
    rank = np.linalg.matrix_rank(fisher, tol=1e-12, hermitian=True)
    found = Geometry(FAMILIES[1], before, data, **EXACT).natural
    assert found.iterations <= rank < flat.size
    assert found.damping == 0


def test_an_update_or_gradient_of_zero_has_no_alignment():
    before, (after,), _, data, _ = situation(DiagGaussian(2), False)
    still = decompose(DiagGaussian(2), before, before, data)
    assert (still.total, still.kl, still.gain) == (0, 0, 0)
    assert np.isnan(still.alignment)
    for nothing in (0.0, np.nan):
        gains = np.full(7, nothing)
        flat = decompose(DiagGaussian(2), before, after, data._replace(advantages=gains))
        assert np.isnan(flat.c)
        assert flat.total > 0


def test_any_pytree_and_policy_function_is_accepted(float64):
    """The same policy as a dictionary gives the same split; as a log-density, the sampled one."""
    family = DiagGaussian(2)
    before, (after,), (delta,), data, (flat, unravel, obs) = situation(family, False)

    def as_dict(policy):
        (w1, w2), (b1, b2) = policy.net.weights, policy.net.biases
        return {"w1": w1, "b1": b1, "w2": w2, "b2": b2, "std": policy.log_std}

    def apply(p, obs):
        mean = jnp.tanh(obs @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        return jnp.concatenate([mean, jnp.broadcast_to(p["std"], mean.shape)], axis=-1)

    def log_prob(p, obs, actions):
        return family.log_prob(p(obs), actions)

    ours = decompose(family, before, after, data, tolerance=1e-12)
    theirs = decompose(family, as_dict(before), as_dict(after), data, apply, tolerance=1e-12)
    np.testing.assert_allclose(theirs[:10], ours[:10], rtol=1e-7)

    sampled = decompose(log_prob, before, after, data, **EXACT)
    actions = jnp.asarray(data.actions)
    scores = np.asarray(jax.jacobian(lambda t: family.log_prob(unravel(t)(obs), actions))(flat))
    fisher = scores.T @ scores / len(scores)
    g = scores.T @ data.advantages / len(scores)
    np.testing.assert_allclose(sampled.total, delta @ fisher @ delta, rtol=1e-9)
    norm = np.sqrt(g @ np.linalg.pinv(fisher, rcond=1e-10, hermitian=True) @ g)
    np.testing.assert_allclose(sampled.c, g @ delta / norm, rtol=1e-6)


def test_trpo_follows_the_natural_gradient():
    """TRPO's step, its own damping all but off, has an alignment near 1; a random step has not."""
    family = DiagGaussian(2)
    before, (after,), _, data, (_, _, obs) = situation(family, False)
    before = jax.tree.map(lambda x: np.asarray(x, np.float32), before)
    dist = before(jnp.asarray(obs, np.float32))
    config = small("trpo", trpo_damping=1e-5, trpo_cg_iters=50, trpo_delta=1e-4)
    actions = jnp.asarray(data.actions)
    samples = Samples(obs, actions, dist, family.log_prob(dist, actions))
    order = jnp.zeros((1, 1, 1), jnp.int32)
    share = Share(order, jnp.asarray(data.advantages, np.float32), jnp.ones(len(obs)))
    update = jax.jit(trpo_update, static_argnums=5)
    expert = update(before, None, samples, share, plain_rates(), config)
    gains = (data.advantages - data.advantages.mean()) / data.advantages.std()
    data = data._replace(advantages=gains)
    found = decompose(family, before, to_host(expert.policy), data, damping=1e-5)
    assert found.alignment > 0.98
    assert decompose(family, before, after, data).alignment < 0.7


@variants
def test_remark_2_the_gain_of_the_mean_update_is_the_spread(family, state_std, float64):
    """J(Δ̄) − mean J(Δ_k) = λ/2 [Var(c_k) + mean ‖ε_k − ε̄‖²_F], with the quadratic KL."""
    before, _, deltas, data, _ = situation(family, state_std, updates=5)
    geometry, weight = Geometry(family, before, data), 0.7
    c, inner = geometry.project(deltas)

    def objective(delta):
        return geometry.gradient @ delta - weight / 2 * delta @ geometry.product(delta)

    gained = objective(deltas.mean(axis=0)) - np.mean([objective(delta) for delta in deltas])
    waste = inner - np.outer(c, c)
    spread = np.var(c) + np.mean(np.diag(waste)) - np.mean(waste)
    np.testing.assert_allclose(gained, weight / 2 * spread, rtol=1e-9)
    assert gained > 0
