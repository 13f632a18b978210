"""From a consensus to the next policy: fit the network to q, then keep to the trust region."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Shaped

from capo.config import Config
from capo.finite import tree_where
from capo.fisher import conjugate_gradient, fisher_operator
from capo.networks import Policy

BACKTRACK = 0.8
MAX_BACKTRACKS = 30
MAX_EXTENSION = 10.0
CG_ITERATIONS = 20
DAMPING = 1e-4

Dist = Float[Array, "n params"]
Scalar = Float[Array, ""]


def batch_kl(policy: Policy, obs: Shaped[Array, "n *obs"], p: Dist) -> Scalar:
    """KL(p ‖ π) averaged over the batch."""
    return jnp.mean(policy.family.kl(p, policy(obs)))


def distill(
    student: Policy, target: Dist, incumbent: Dist, obs: Shaped[Array, "n *obs"], config: Config
) -> tuple[Policy, dict[str, Scalar]]:
    """Minimises KL(q ‖ π) by full-batch Gauss-Newton steps Δ = −(F + damping·I)⁻¹ ∇KL(q ‖ π).

    Ends once KL(q ‖ π) ≤ `distill_tol` · KL(π_t ‖ q), or when a step no longer lowers it. A student
    that starts within that does not move at all, so agreeing experts give themselves.
    """
    flat, unravel = ravel_pytree(student)
    goal = config.distill_tol * jnp.mean(student.family.kl(incumbent, target))

    def loss(theta):
        return batch_kl(unravel(theta), obs, target)

    def far(carry):
        _, now, before, steps = carry
        return (now > goal) & (now < before) & (steps < config.distill_steps)

    def improve(carry):
        theta, now, _, steps = carry
        gradient = jax.grad(loss)(theta)
        _, product = fisher_operator(unravel(theta), obs)
        trial = theta - conjugate_gradient(product, gradient, CG_ITERATIONS, DAMPING)
        after = loss(trial)
        better = after < now
        return *tree_where(better, (trial, after), (theta, now)), now, steps + 1

    first = loss(flat)
    start = (flat, first, jnp.array(jnp.inf), jnp.array(0))
    theta, last, _, steps = jax.lax.while_loop(far, improve, start)
    info = {
        "distill_kl_start": first,
        "distill_kl": last,
        "distill_steps": steps.astype(float),
    }
    return unravel(theta), info


def line_search(
    incumbent: Policy, candidate: Policy, dist: Dist, obs: Shaped[Array, "n *obs"], config: Config
) -> tuple[Policy, dict[str, Scalar]]:
    """The furthest θ_t + s (θ − θ_t) on a ×0.8 grid with KL(π_t ‖ π) ≤ δ, exact over the batch.

    Begins at s = 1; with `radius` at the s that brings the KL to δ, at most 10. If nothing fits,
    the incumbent stays. A candidate that fits as it is comes back untouched.
    """
    start, unravel = ravel_pytree(incumbent)
    end, _ = ravel_pytree(candidate)

    def at(scale):
        return jnp.where(scale == 1.0, end, start + scale * (end - start))

    def divergence(scale):
        return batch_kl(unravel(at(scale)), obs, dist)

    def towards_delta(_, scale):
        wanted = scale * jnp.sqrt(0.98 * config.delta / jnp.maximum(divergence(scale), 1e-12))
        return jnp.clip(wanted, 1.0, MAX_EXTENSION)

    scale = jnp.array(1.0)
    if config.line_search == "radius":
        scale = jax.lax.fori_loop(0, 4, towards_delta, scale)

    def outside(carry):
        tries, _, kl = carry
        return ~(kl <= config.delta) & (tries < MAX_BACKTRACKS)

    def shrink(carry):
        tries, scale, _ = carry
        scale = scale * BACKTRACK
        return tries + 1, scale, divergence(scale)

    first = (jnp.array(0), scale, divergence(scale))
    _, scale, kl = jax.lax.while_loop(outside, shrink, first)
    failed = ~(kl <= config.delta)
    theta = jnp.where(failed, start, at(scale))
    info = {"step_scale": jnp.where(failed, 0.0, scale), "line_search_failed": failed.astype(float)}
    return unravel(theta), info
