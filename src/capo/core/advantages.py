"""Generalised advantage estimation."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    rewards: Float[Array, "steps envs"],
    values: Float[Array, "steps envs"],
    next_values: Float[Array, "steps envs"],
    terminated: Bool[Array, "steps envs"],
    truncated: Bool[Array, "steps envs"],
    gamma: float | Float[Array, ""],
    lam: float | Float[Array, ""],
    traces: Float[Array, "steps envs"] | None = None,
) -> Float[Array, "steps envs"]:
    """Generalised advantages: δ_t = r_t + γ V(s'_t)(1 − terminated_t) − V(s_t),
    A_t = δ_t + γλ (1 − done_t) c_{t+1} A_{t+1}.

    The traces c are 1 for the policy that acted. With c = min(1, π/π_b) these are the advantages of
    V-trace for a policy π on data of π_b.

    `next_values` are of the observation each action led to, so a truncated step bootstraps from
    its true final observation, and the last step of the batch needs no case of its own.
    """
    delta = rewards + gamma * next_values * ~terminated - values
    decay = gamma * lam * ~(terminated | truncated)

    def backward(after, step):
        delta_t, decay_t, trace_t = step
        advantage = delta_t + decay_t * after
        return advantage if trace_t is None else trace_t * advantage, advantage

    start = jnp.zeros_like(values[0])
    return jax.lax.scan(backward, start, (delta, decay, traces), reverse=True, unroll=8)[1]


def gae_lambdas(lam: float | Float[Array, ""], width: int) -> Float[Array, " experts"]:
    """λ for each expert: horizons 1/(1 − λ) spaced evenly in the logarithm from half to double."""
    spread = jnp.linspace(1.0, -1.0, width) if width > 1 else jnp.zeros(1)
    return 1 - (1 - lam) * 2.0**spread
