"""Injects NaN into the compiled update at chosen generations.

A run is one program, so the faults are in it from the start, and each comes to life where the
learning rate is that of its generation: it falls from one to the next.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import capo.core.ppo
import capo.update
from capo.methods import RULES
from capo.train import learning_rate
from capo.update import _critic_program, _policy_program

FAULTS = {
    "loss": "the loss of each PPO step is not a number",
    "gradient": "its gradient is not, though the loss is",
    "expert": "the first expert is not a number",
    "moments": "the first expert's optimizer state is not",
    "experts": "no expert is a number",
    "critic": "the targets of the value fit are not numbers",
}


@contextlib.contextmanager
def faulty(config, faults):
    """In this context, generation i of a run has the fault `faults[i]`."""
    update, loss = RULES["ppo"], capo.core.ppo.policy_loss
    train_experts, fit_critic = capo.update.train_experts, capo.update.fit_critic

    def now(fault, rate):
        rates = [np.float32(learning_rate(config, i)) for i in faults if faults[i] == fault]
        return jnp.isin(rate, jnp.array(rates, jnp.float32))

    def bad_update(policy, opt_state, samples, share, rates, static):
        rate = rates.learning_rate

        def bad_loss(policy, *rest):
            value, info = loss(policy, *rest)
            value = value * jnp.where(now("loss", rate), jnp.nan, 1.0)
            return value + _steep(policy, now("gradient", rate)), info

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(capo.core.ppo, "policy_loss", bad_loss)
            return update(policy, opt_state, samples, share, rates, static)

    def bad_experts(*args):
        trained, rate = train_experts(*args), args[-2].learning_rate
        trained = _spoil(trained, now("expert", rate), slice(1))
        moments = _spoil(trained.opt_state, now("moments", rate), slice(1))
        return _spoil(trained._replace(opt_state=moments), now("experts", rate), slice(None))

    def bad_fit(critic, opt_state, obs, targets, indices, rate, static):
        targets = jnp.where(now("critic", rate), jnp.nan, targets)
        return fit_critic(critic, opt_state, obs, targets, indices, rate, static)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "ppo", bad_update)
        patch.setattr(capo.update, "train_experts", bad_experts)
        patch.setattr(capo.update, "fit_critic", bad_fit)
        clear()
        yield
    clear()


def clear():
    """Clears the compiled update, so that it is traced again."""
    for program in (_policy_program, _critic_program):
        program.clear_cache()


def _steep(policy, here):
    """Always 0, but computed as √0, whose gradient is 0 · ∞."""
    size = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(policy))
    return jnp.sqrt(jnp.where(here, 0 * size, 1.0)) - jnp.where(here, 0.0, 1.0)


def _spoil(tree, here, rows):
    """The same tree with NaN in some rows."""

    def spoil(x):
        whole = not jnp.issubdtype(x.dtype, jnp.floating)
        return x if whole else jnp.where(here, x.at[rows].set(jnp.nan), x)

    return jax.tree.map(spoil, tree)
