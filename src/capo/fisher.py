"""The Fisher information of a policy, exact in the actions: F = Jᵀ G J.

J is the derivative of the distribution parameters with respect to the network's, G their Fisher
metric, the Hessian of KL(π ‖ ·) at π. In natural parameters G is ∇²A(η); any other coordinates give
the same F, because the gradient of the KL vanishes at π.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from capo.networks import Policy

Vector = Float[Array, " p"]


def fisher_operator(
    policy: Policy, obs: Float[Array, "n obs"]
) -> tuple[Vector, Callable[[Vector], Vector]]:
    """The flat parameters and v ↦ F v, averaged over the observations."""
    flat, unravel = ravel_pytree(policy)
    dist, forward = jax.linearize(lambda theta: unravel(theta)(obs), flat)
    backward = jax.linear_transpose(forward, flat)

    def slope(other):
        return jax.grad(lambda d: jnp.mean(policy.family.kl(dist, d)))(other)

    def product(v: Vector) -> Vector:
        _, metric = jax.jvp(slope, (dist,), (forward(v),))
        return backward(metric)[0]

    return flat, product


def conjugate_gradient(
    product: Callable[[Vector], Vector], b: Vector, iterations: int, damping: float
) -> Vector:
    """An approximate solution of (F + damping·I) x = b in at most `iterations` steps."""

    def damped(v: Vector) -> Vector:
        return product(v) + damping * v

    return jax.scipy.sparse.linalg.cg(damped, b, tol=1e-6, maxiter=iterations)[0]
