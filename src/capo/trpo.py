"""One TRPO expert: a natural gradient step with a backtracking line search."""

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from capo.config import Config
from capo.fisher import conjugate_gradient, fisher_operator
from capo.networks import Policy
from capo.ppo import Expert, Samples, Share, standardize

BACKTRACK = 0.8
MAX_BACKTRACKS = 15


def trpo_update(
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    learning_rate: Float[Array, ""],
    config: Config,
) -> Expert:
    """θ + β x with (F + damping·I) x = g and β = √(2δ / xᵀFx), then backtracking.

    A step is accepted once the surrogate E[w ρ A] rises and KL(π_t ‖ π) ≤ δ; if none is, the
    incumbent stays. Neither the learning rate nor Adam's state is used: the state passes through.
    """
    family = policy.family
    advantages = share.weights * (
        share.advantages if config.advantage_norm == "none" else standardize(share.advantages)
    )
    flat, unravel = ravel_pytree(policy)

    def surrogate(theta):
        dist = unravel(theta)(samples.obs)
        ratio = jnp.exp(family.log_prob(dist, samples.actions) - samples.log_prob)
        return jnp.mean(ratio * advantages)

    def divergence(theta):
        return jnp.mean(family.kl(samples.dist, unravel(theta)(samples.obs)))

    gain, gradient = jax.value_and_grad(surrogate)(flat)
    _, product = fisher_operator(policy, samples.obs)
    direction = conjugate_gradient(product, gradient, config.trpo_cg_iters, config.trpo_damping)
    curvature = jnp.maximum(direction @ product(direction), 1e-12)
    step = jnp.sqrt(2 * config.trpo_delta / curvature) * direction

    def rejected(carry):
        tries, scale = carry
        theta = flat + scale * step
        good = (surrogate(theta) > gain) & (divergence(theta) <= config.trpo_delta)
        return ~good & (tries < MAX_BACKTRACKS)

    def shrink(carry):
        tries, scale = carry
        return tries + 1, scale * BACKTRACK

    tries, scale = jax.lax.while_loop(rejected, shrink, (jnp.array(0), jnp.array(1.0)))
    accepted = tries < MAX_BACKTRACKS
    theta = jnp.where(accepted, flat + scale * step, flat)
    info = {
        "policy_loss": -surrogate(theta),
        "approx_kl": divergence(theta),
        "clipfrac": jnp.zeros(()),
        "grad_norm": jnp.linalg.norm(gradient),
        "epochs_run": accepted.astype(float),
    }
    return Expert(unravel(theta), opt_state, unravel(theta), info)
