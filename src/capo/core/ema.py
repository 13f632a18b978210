"""The exponential average of the policy over generations."""

import jax

from capo.core.networks import Policy


def averaged(average: Policy | None, policy: Policy, tau: float, count: int) -> Policy | None:
    """ψ ← ψ + (θ − ψ) / Σ_{j<t} τʲ, after t = `count` generations.

    That is ψ_t = Σ_i τ^{t−i} θ_i / Σ_i τ^{t−i}: ψ ← τψ + (1 − τ)θ without its bias towards the
    start. τ = 1 is the mean of all policies. Without an average so far, ψ = θ; τ = 0: None.
    """
    if not tau:
        return None
    if average is None or count == 1:
        return policy
    rate = 1 / sum(tau**j for j in range(count))
    return jax.tree.map(lambda psi, theta: psi + rate * (theta - psi), average, policy)
