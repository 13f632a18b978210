"""One generation: the update of policy and critic from one batch, as two compiled programs."""

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from capo.config import Config
from capo.core.consensus import Experts, best_of, theorem, tree_mean, tree_pick
from capo.core.critic import critic_minibatches, fit_critic
from capo.core.devices import available_cores, critic_device
from capo.core.distill import distill, distill_adam, limit_std, line_search
from capo.core.experts import shares, train_experts
from capo.core.family import Family
from capo.core.masking import all_finite, finite_rows, replace_nonfinite, tree_where
from capo.core.networks import Critic, Policy
from capo.core.optimizer import empty_moments, init_optimizer
from capo.core.outer import count_cuts, init_outer, outer_step
from capo.core.ppo import Samples, standardize
from capo.methods import Settled, compiled_part, settle, warmup_of
from capo.rollout import Batch
from capo.samples import advantages_of, last_batches, samples_of
from capo.state import TrainState


class Update(NamedTuple):
    """Result of a generation, on the host."""

    state: "TrainState"
    info: dict[str, float]
    experts: Policy
    """The trained replicates, stacked."""
    advantages: Float[np.ndarray, " n"]
    """Generalised advantages of the batch, time and environments in one axis."""


def generation(
    config: Config,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    learning_rate: float,
    delta: float | None = None,
) -> Update:
    """Updates policy and critic from one batch: two concurrent programs, one transfer back.

    The experts and the value fit do not depend on each other. `delta` is the trust region of this
    generation (default: the configuration's). The average of the policy is left to the loop.
    """
    fit, find = _calls(config, key, state, batch, learning_rate, delta)
    # Both calls return before their results are ready.
    (critic, fitted), (found, info, experts, advantages) = jax.device_get((fit(), find()))
    info = {name: float(value) for name, value in (info | fitted).items()}
    policy, opt_state, outer, past = found
    state = TrainState(policy, critic[0], opt_state, critic[1], outer, past=past)
    return Update(state, info, experts, advantages)


def precompile(
    configs: Sequence[Config], key: PRNGKeyArray, state: TrainState, batch: Batch
) -> None:
    """Compiles the programs of `generation` for each configuration, concurrently.

    The configurations are phases of one run, which share the value fit.
    """
    calls = [_calls(config, key, state, batch, config.learning_rate) for config in configs]
    programs = [calls[0][0], *(find for _, find in calls)]
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(lambda program: jax.block_until_ready(program()), programs))


def _calls(
    config: Config,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    learning_rate: float,
    delta: float | None = None,
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The value fit and the update of the policy."""
    settled, rate = settle(config), np.float32(learning_rate)
    state = state._replace(ema=None)  # Neither program depends on it.
    region = np.float32(config.delta if delta is None else delta)

    def fit():
        args = jax.device_put((key, state.critic, state.critic_opt, batch, rate), critic_device())
        return _critic_program(compiled_part(warmup_of(settled)), *args)

    return fit, lambda: _policy_program(compiled_part(settled), key, state, batch, rate, region)


@functools.partial(jax.jit, static_argnames="config")
def _policy_program(
    config: Settled,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    rate: Float[Array, ""],
    delta: Float[Array, ""],
):
    """The next policy and its optimizer state, metrics, experts and advantages."""
    method = config.method
    _, advantages, expert_advantages = advantages_of(config, state.critic, batch)
    samples, surrogate_of = samples_of(state.policy, batch, advantages, config)
    pool, sizes, past = samples, None, state.past
    if past is not None:
        reused, past = last_batches(config, state.policy, state.critic, past, batch)
        if config.batches > 1:
            pool, expert_advantages, sizes = reused
    depth, order = method.depth(config), jax.random.fold_in(key, 0)
    share = shares(order, expert_advantages, depth, config, sizes, pool.importance)
    trained = train_experts(
        method.rule(config), state.policy, state.policy_opt, pool, share, rate, config
    )
    dists = jax.vmap(lambda p: p(samples.obs))(trained.policy)
    found = Experts(*trained[:3], dists, jax.vmap(surrogate_of)(dists))
    good = finite_rows(found)
    experts = replace_nonfinite(found, good)._replace(good=good)
    info = {}
    if sizes is not None:
        info["effective_size"] = jnp.mean(sizes[1:])
        if config.diversity == "batches":
            experts = experts._replace(weight=sizes / jnp.mean(sizes, where=good))

    policy, policy_opt, outer, found = _next_policy(config, state, experts, samples, rate, delta)
    info |= found | {name: jnp.mean(value, where=good) for name, value in trained.info.items()}
    info |= _expert_metrics(policy.family, experts, samples)
    network = policy(samples.obs)
    info |= {
        "kl": jnp.mean(policy.family.kl(samples.dist, network)),
        "entropy": jnp.mean(policy.family.entropy(network)),
        "surrogate": surrogate_of(network),
        "nonfinite/experts": jnp.sum(~good).astype(float),
    }
    if dists.shape[0] > 1:
        gains = standardize(advantages.reshape(-1))
        ends = (samples.dist, experts.dist, network, samples.actions, gains)
        info |= theorem(policy.family, *ends, delta, good, experts.weight)
    return (policy, policy_opt, outer, past), info, trained.policy, advantages.reshape(-1)


@functools.partial(jax.jit, static_argnames="config")
def _critic_program(
    config: Settled,
    key: PRNGKeyArray,
    critic: Critic,
    opt_state: optax.OptState,
    batch: Batch,
    rate: Float[Array, ""],
):
    """The next critic and its optimizer state (the old ones if not finite), and metrics."""
    values, advantages, _ = advantages_of(config, critic, batch)
    targets = (advantages + values).reshape(-1)
    obs = batch.obs.reshape(-1, *batch.obs.shape[2:])
    indices = critic_minibatches(jax.random.fold_in(key, 1), obs.shape[0], config)
    *new, error = fit_critic(critic, opt_state, obs, targets, indices, rate, config)
    sound = all_finite((new, error))
    unexplained = jnp.var(targets - values.reshape(-1)) / (jnp.var(targets) + 1e-12)
    info = {
        "value_loss": error,
        "explained_variance": 1 - unexplained,
        "nonfinite/critic": 1.0 - sound,
    }
    return tree_where(sound, tuple(new), (critic, opt_state)), info


def _next_policy(
    config: Settled,
    state: TrainState,
    experts: Experts,
    samples: Samples,
    rate: Float[Array, ""],
    delta: Float[Array, ""],
):
    """The next policy, its optimizer state and momentum (the old ones if not finite), metrics."""
    outer = None
    if config.outer_momentum:
        outer = state.outer or init_outer(state.policy)
    old = (state.policy, state.policy_opt, outer)
    policy, info = _aggregate(config, state.policy, experts, samples, rate, delta)
    policy, outer = outer_step(state.policy, policy, outer, config)
    if config.delta_std:
        policy, found = limit_std(state.policy, policy, config.delta_std)
        info |= found
    if config.line_search != "off":
        ends = (state.policy, policy, samples.dist, samples.obs)
        policy, found = line_search(*ends, delta, radius=config.line_search == "radius")
        outer = None if outer is None else count_cuts(outer, found["step_scale"])
        info |= found
    policy_opt = _carry(config, state.policy_opt, state.policy, experts)
    sound = all_finite((experts, policy, policy_opt, outer, policy(samples.obs)))
    info["nonfinite/policy"] = 1.0 - sound
    return *tree_where(sound, (policy, policy_opt, outer), old), info


def _aggregate(
    config: Settled,
    incumbent: Policy,
    experts: Experts,
    samples: Samples,
    rate: Float[Array, ""],
    delta: Float[Array, ""],
):
    """Aggregation, then distillation where it is on."""
    policy, target = config.method.aggregate(experts)
    if config.distill == "off":
        return policy, {}
    target = policy(samples.obs) if target is None else target
    student = incumbent if config.distill_init == "incumbent" else policy
    if config.distill == "adam":
        return distill_adam(student, target, samples.dist, samples.obs, rate, delta, config)
    return distill(student, target, samples.dist, samples.obs, config)


def _carry(config: Config, old: optax.OptState, policy: Policy, experts: Experts) -> optax.OptState:
    """The optimizer state that the next generation's experts start from."""
    match config.carry:
        case "incumbent":
            return old
        case "counter":
            return empty_moments(tree_pick(experts.opt_state, best_of(experts)))
        case "reset":
            return init_optimizer(config, policy)
        case "best":
            return tree_pick(experts.opt_state, best_of(experts))
        case _:
            return tree_mean(experts.opt_state, experts.good)


def _expert_metrics(family: Family, experts: Experts, samples: Samples):
    """Metrics of the finite experts."""
    kl = jax.vmap(lambda d: jnp.mean(family.kl(samples.dist, d)))(experts.dist)
    return {
        "expert_kl": jnp.mean(kl, where=experts.good),
        "expert_kl_max": jnp.max(kl),
        "expert_surrogate": jnp.mean(experts.surrogate, where=experts.good),
    }
