"""Distillation of the consensus into the network, and the line search in the trust region."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Shaped

from capo.core.fisher import conjugate_gradient, fisher_operator
from capo.core.masking import tree_where
from capo.core.networks import Policy
from capo.core.optimizer import descend, flatten, init_optimizer
from capo.core.settings import PolicySettings

BACKTRACK = 0.8
MAX_BACKTRACKS = 30
CG_ITERATIONS = 20
DAMPING = 1e-4

Dist = Float[Array, "n params"]
Scalar = Float[Array, ""]


def batch_kl(policy: Policy, obs: Shaped[Array, "n *obs"], p: Dist) -> Scalar:
    """KL(p ‖ π) averaged over the batch."""
    return jnp.mean(policy.family.kl(p, policy(obs)))


def distill(
    student: Policy,
    target: Dist,
    incumbent: Dist,
    obs: Shaped[Array, "n *obs"],
    config: PolicySettings,
) -> tuple[Policy, dict[str, Scalar]]:
    """Minimises KL(q ‖ π) by full-batch Gauss-Newton steps Δ = −(F + damping·I)⁻¹ ∇KL(q ‖ π).

    Stops at KL(q ‖ π) ≤ `distill_tol` · KL(π_t ‖ q), or when a step no longer lowers it. A student
    that starts within the tolerance does not move, so identical experts are reproduced exactly.
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


def distill_adam(
    student: Policy,
    target: Dist,
    incumbent: Dist,
    obs: Shaped[Array, "n *obs"],
    learning_rate: Scalar,
    config: PolicySettings,
) -> tuple[Policy, dict[str, Scalar]]:
    """Minimises KL(q ‖ π) by `distill_steps` full-batch Adam steps from empty moments.

    A step to KL(π_t ‖ π) > δ is rejected; Adam's moments advance all the same.
    """
    start, restore = flatten(student, init_optimizer(config, student))

    def loss(theta):
        return batch_kl(restore((theta, start[1]))[0], obs, target), None

    def step(flat, _):
        trial, *_ = descend(config, flat, loss, learning_rate)
        inside = batch_kl(restore(trial)[0], obs, incumbent) <= config.delta
        return (jnp.where(inside, trial[0], flat[0]), trial[1]), inside

    last, accepted = jax.lax.scan(step, start, length=config.distill_steps)
    info = {
        "distill_kl_start": loss(start[0])[0],
        "distill_kl": loss(last[0])[0],
        "distill_steps": jnp.sum(accepted).astype(float),
    }
    return restore(last)[0], info


def line_search(
    incumbent: Policy,
    candidate: Policy,
    dist: Dist,
    obs: Shaped[Array, "n *obs"],
    delta: Scalar | float,
) -> tuple[Policy, dict[str, Scalar]]:
    """The furthest θ_t + s (θ − θ_t) on a ×0.8 grid with KL(π_t ‖ π) ≤ δ, exact over the batch.

    Starts at s = 1. If every s fails, the incumbent is kept. A candidate within δ is returned
    unchanged.
    """
    start, unravel = ravel_pytree(incumbent)
    end, _ = ravel_pytree(candidate)

    def at(scale):
        return jnp.where(scale == 1.0, end, start + scale * (end - start))

    def divergence(scale):
        return batch_kl(unravel(at(scale)), obs, dist)

    def outside(carry):
        tries, _, kl = carry
        return ~(kl <= delta) & (tries < MAX_BACKTRACKS)

    def shrink(carry):
        tries, scale, _ = carry
        scale = scale * BACKTRACK
        return tries + 1, scale, divergence(scale)

    scale = jnp.array(1.0)
    first = (jnp.array(0), scale, divergence(scale))
    _, scale, kl = jax.lax.while_loop(outside, shrink, first)
    failed = ~(kl <= delta)
    theta = jnp.where(failed, start, at(scale))
    info = {"step_scale": jnp.where(failed, 0.0, scale), "line_search_failed": failed.astype(float)}
    return unravel(theta), info
