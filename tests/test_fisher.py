"""The Fisher-vector product against definitions, for every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from capo.families import DiagGaussian
from capo.fisher import conjugate_gradient, fisher_operator
from capo.networks import init_policy
from test_families import FAMILIES, every_action

VARIANTS = [(family, False) for family in FAMILIES] + [(DiagGaussian(2), True)]
variants = pytest.mark.parametrize(
    ("family", "state_std"), VARIANTS, ids=lambda v: type(v).__name__ if v not in (0, 1) else str(v)
)


def setup(family, state_std):
    """A network of a few dozen parameters, away from its near-zero initial head."""
    policy = init_policy(jax.random.key(0), 2, family, (3,), state_std)
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
