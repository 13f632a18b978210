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

from capo.core.batch import Batch
from capo.core.consensus import (
    Experts,
    best_of,
    theorem_metrics,
    tree_mean,
    tree_pick,
    with_deviation,
)
from capo.core.critic import critic_minibatches, fit_critic
from capo.core.devices import available_cores, critic_device
from capo.core.distill import distill, distill_adam, line_search
from capo.core.experts import shares, train_experts
from capo.core.family import Family
from capo.core.masking import all_finite, finite_rows, replace_nonfinite, tree_where
from capo.core.networks import Critic, Policy
from capo.core.optimizer import empty_moments, init_optimizer
from capo.core.outer import outer_step
from capo.core.ppo import Rates, Samples, standardize
from capo.core.reuse import Past
from capo.core.settings import PolicySettings, ValueSettings
from capo.methods import Method, Settled
from capo.samples import advantages_of, last_batches, own_advantages, samples_of
from capo.state import TrainState


class Update(NamedTuple):
    """Result of a generation, on the host."""

    state: "TrainState"
    info: dict[str, float]
    experts: Policy
    """The trained replicates, stacked."""
    advantages: Float[np.ndarray, " n"]
    """Generalised advantages of the batch, time and environments in one axis."""


def improve(
    config: Settled,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    learning_rate: float,
    entropy_coef: float | None = None,
) -> Update:
    """Updates policy and critic from one batch: two concurrent programs, one transfer back.

    The experts and the value fit do not depend on each other. `entropy_coef` is the weight of the
    entropy bonus in this generation (default: the configuration's).
    """
    calls = _calls(config, key, state, batch, learning_rate, entropy_coef)
    # Both calls return before their results are ready.
    value, policy = jax.device_get((calls.value(), calls.policy()))
    info = {name: float(number) for name, number in (policy.info | value.info).items()}
    new = TrainState(
        policy=policy.policy,
        critic=value.critic,
        policy_opt=policy.opt_state,
        critic_opt=value.opt_state,
        past=policy.past,
    )
    return Update(state=new, info=info, experts=policy.experts, advantages=policy.advantages)


def precompile(
    configs: Sequence[Settled], key: PRNGKeyArray, state: TrainState, batch: Batch
) -> None:
    """Compiles the programs of `improve` for each configuration, concurrently.

    The configurations are phases of one run, which share the value fit.
    """
    calls = [_calls(config, key, state, batch, config.learning_rate) for config in configs]
    programs = [calls[0].value, *(each.policy for each in calls)]
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(lambda program: jax.block_until_ready(program()), programs))


class Improved(NamedTuple):
    """Result of the policy's program."""

    policy: Policy
    opt_state: optax.OptState
    past: Past | None
    info: dict[str, Float[Any, ""]]
    experts: Policy
    advantages: Float[Any, " n"]


class Fitted(NamedTuple):
    """Result of the critic's program."""

    critic: Critic
    opt_state: optax.OptState
    info: dict[str, Float[Any, ""]]


class Calls(NamedTuple):
    """The two programs of a generation, with their arguments."""

    value: Callable[[], Fitted]
    policy: Callable[[], Improved]


def _calls(
    config: Settled,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    learning_rate: float,
    entropy_coef: float | None = None,
) -> Calls:
    rate = np.float32(learning_rate)
    bonus = np.float32(config.entropy_coef if entropy_coef is None else entropy_coef)
    past = (state.policy, state.past) if config.critic_batches == "all" and state.past else None

    def fit_value() -> Fitted:
        args = (key, state.critic, state.critic_opt, batch, past, rate)
        return _critic_program(config.for_value, *jax.device_put(args, critic_device()))

    def improve_policy() -> Improved:
        rates = Rates(learning_rate=rate, entropy_coef=bonus)
        return _policy_program(config.method, config.for_policy, key, state, batch, rates)

    return Calls(value=fit_value, policy=improve_policy)


@functools.partial(jax.jit, static_argnames="method")
def _policy_program(
    method: Method,
    config: PolicySettings,
    key: PRNGKeyArray,
    state: TrainState,
    batch: Batch,
    rates: Rates,
) -> Improved:
    """The next policy and its optimizer state, metrics, experts and advantages."""
    width = method.width(config)
    _, advantages = advantages_of(config, state.critic, batch)
    expert_advantages = own_advantages(config, width, state.critic, batch, advantages)
    samples, surrogate_of = samples_of(state.policy, batch, advantages, config)
    pool, sizes, past = samples, None, state.past
    if past is not None:
        earlier = last_batches(config, state.policy, state.critic, past, batch)
        past = earlier.past
        if method.batches(config) > 1:
            pool, sizes = earlier.samples, earlier.sizes
            expert_advantages = jnp.broadcast_to(
                earlier.advantages, (width, len(earlier.advantages))
            )
    depth, order = method.depth(config), jax.random.fold_in(key, 0)
    share = shares(order, expert_advantages, depth, config, sizes, pool.importance)
    trained = train_experts(
        method.rule(config), state.policy, state.policy_opt, pool, share, rates, config
    )
    dists = jax.vmap(lambda policy: policy(samples.obs))(trained.policy)
    experts = Experts(
        policy=trained.policy,
        opt_state=trained.opt_state,
        mean_iterate=trained.mean_iterate,
        dist=dists,
        surrogate=jax.vmap(surrogate_of)(dists),
    )
    good = finite_rows(experts)
    experts = replace_nonfinite(experts, good)._replace(good=good)
    info = {}
    if sizes is not None:
        info["effective_size"] = jnp.mean(sizes[1:])
        if config.diversity == "batches":
            experts = experts._replace(weight=sizes / jnp.mean(sizes, where=good))

    policy, opt_state, step_info = _next_policy(
        method, config, state, experts, samples, rates.learning_rate
    )
    info |= step_info | {n: jnp.mean(each, where=good) for n, each in trained.info.items()}
    info |= _expert_metrics(policy.family, experts, samples)
    network = policy(samples.obs)
    info |= {
        "kl": jnp.mean(policy.family.kl(samples.dist, network)),
        "entropy": jnp.mean(policy.family.entropy(network)),
        "surrogate": surrogate_of(network),
        "nonfinite/experts": jnp.sum(~good).astype(float),
    }
    if width > 1:
        info |= theorem_metrics(
            policy.family,
            incumbent=samples.dist,
            experts=experts.dist,
            network=network,
            actions=samples.actions,
            advantages=standardize(advantages.reshape(-1)),
            delta=config.delta,
            good=good,
            weight=experts.weight,
        )
    return Improved(
        policy=policy,
        opt_state=opt_state,
        past=past,
        info=info,
        experts=trained.policy,
        advantages=advantages.reshape(-1),
    )


@jax.jit
def _critic_program(
    config: ValueSettings,
    key: PRNGKeyArray,
    critic: Critic,
    opt_state: optax.OptState,
    batch: Batch,
    past: tuple[Policy, Past] | None,
    rate: Float[Array, ""],
) -> Fitted:
    """The next critic and its optimizer state (the old ones if not finite), and metrics.

    With the policy and the past, the samples of all batches are fitted, in as many steps as
    without.
    """
    values, advantages = advantages_of(config, critic, batch)
    newest = (advantages + values).reshape(-1)
    unexplained = jnp.var(newest - values.reshape(-1)) / (jnp.var(newest) + 1e-12)
    obs, targets, batches = batch.obs.reshape(-1, *batch.obs.shape[2:]), newest, 1
    if past is not None:
        earlier = last_batches(config, past[0], critic, past[1], batch)
        obs, targets = earlier.samples.obs, earlier.advantages + critic(earlier.samples.obs)
        batches = len(earlier.sizes)
    indices = critic_minibatches(jax.random.fold_in(key, 1), len(newest), config, batches)
    fitted, moments, error = fit_critic(critic, opt_state, obs, targets, indices, rate, config)
    sound = all_finite((fitted, moments, error))
    info = {
        "value_loss": error,
        "explained_variance": 1 - unexplained,
        "nonfinite/critic": 1.0 - sound,
    }
    critic, opt_state = tree_where(sound, (fitted, moments), (critic, opt_state))
    return Fitted(critic=critic, opt_state=opt_state, info=info)


def _next_policy(
    method: Method,
    config: PolicySettings,
    state: TrainState,
    experts: Experts,
    samples: Samples,
    rate: Float[Array, ""],
) -> tuple[Policy, optax.OptState, dict[str, Float[Array, ""]]]:
    """The next policy and its optimizer state (the old ones if not finite), metrics."""
    policy, info = _aggregate(method, config, state.policy, experts, samples, rate)
    if config.outer_lr is not None:
        policy = outer_step(state.policy, policy, config.outer_lr)
    if config.line_search != "off":
        policy, search_info = line_search(
            state.policy, policy, samples.dist, samples.obs, config.delta
        )
        info |= search_info
    opt_state = _carry(config, state.policy_opt, state.policy, experts)
    sound = all_finite((experts, policy, opt_state, policy(samples.obs)))
    info["nonfinite/policy"] = 1.0 - sound
    old = (state.policy, state.policy_opt)
    policy, opt_state = tree_where(sound, (policy, opt_state), old)
    return policy, opt_state, info


def _aggregate(
    method: Method,
    config: PolicySettings,
    incumbent: Policy,
    experts: Experts,
    samples: Samples,
    rate: Float[Array, ""],
):
    """Aggregation, then distillation where it is on."""
    policy, target = method.aggregate(experts)
    if config.deviation == "newest":
        policy, target = with_deviation(policy, target, experts.policy.log_std)
    if config.distill == "off":
        return policy, {}
    target = policy(samples.obs) if target is None else target
    student = incumbent if config.distill_init == "incumbent" else policy
    if config.distill == "adam":
        return distill_adam(student, target, samples.dist, samples.obs, rate, config)
    return distill(student, target, samples.dist, samples.obs, config)


def _carry(
    config: PolicySettings, old: optax.OptState, policy: Policy, experts: Experts
) -> optax.OptState:
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
