"""A new aggregation: a function of the experts, and a row in the table of methods."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from capo import METHODS, Config, Consensus, Experts, evaluate, learn


def median(experts: Experts) -> Consensus:
    """The median of the experts' parameters, coordinate by coordinate."""
    return Consensus(jax.tree.map(lambda x: jnp.median(x, axis=0), experts.policy))


METHODS["capo-median"] = replace(METHODS["capo-avg"], aggregate=median)
model = learn(Config("CartPole-v1", algo="capo-median", total_steps=40_960, num_steps=128))
print(f"return {evaluate(model, episodes=10).mean:.0f}")
