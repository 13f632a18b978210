"""One TRPO expert: a natural gradient step with a backtracking line search."""

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from capo.core.fisher import conjugate_gradient, fisher_operator
from capo.core.networks import Policy
from capo.core.ppo import Expert, Rates, Samples, Share, standardize
from capo.core.settings import PolicySettings

BACKTRACK = 0.8
MAX_BACKTRACKS = 15


def trpo_update(
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    rates: Rates,
    config: PolicySettings,
) -> Expert:
    """θ + β x with (F + damping·I) x = g and β = √(2δ / xᵀFx), then backtracking.

    A step is accepted if the surrogate E[w ρ A] rises and KL(π_t ‖ π) ≤ δ; otherwise the incumbent
    is kept. The rates are not used and Adam's state is returned unchanged.
    """
    family, raw = policy.family, config.advantage_norm == "none"
    advantages = share.weights * (
        share.advantages if raw else standardize(share.advantages, config.advantage_floor)
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

    def accepted_at(scale):
        theta = flat + scale * step
        return (surrogate(theta) > gain) & (divergence(theta) <= config.trpo_delta)

    tries, scale = jax.lax.while_loop(
        lambda carry: ~accepted_at(carry[1]) & (carry[0] < MAX_BACKTRACKS),
        lambda carry: (carry[0] + 1, carry[1] * BACKTRACK),
        (jnp.array(0), jnp.array(1.0)),
    )
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
