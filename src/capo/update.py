"""One generation's update of everything from one batch: two compiled calls, side by side."""

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from capo.adam import init_optimizer
from capo.config import Config
from capo.consensus import Experts, best_of, theorem, tree_mean, tree_pick
from capo.critic import fit_critic
from capo.distill import distill, line_search
from capo.envs import available_cores
from capo.experts import gae_lambdas, permutations, shares, train_experts
from capo.families import Family
from capo.finite import all_finite, finite_rows, mend, tree_where
from capo.methods import method_of, resolve, warmup_of
from capo.model import fresh_networks
from capo.networks import Critic, Policy, to_host
from capo.ppo import Samples, clipped_surrogate, standardize
from capo.rollout import Batch, gae


class Update(NamedTuple):
    """What a generation makes of a batch, on the host."""

    state: "TrainState"
    info: dict[str, float]
    experts: Policy
    """The trained replicates, stacked."""
    advantages: Float[np.ndarray, " n"]
    """Generalised advantages of the batch, time and environments in one axis."""


class TrainState(NamedTuple):
    """The learner between two generations, on the host."""

    policy: Policy
    critic: Critic
    policy_opt: optax.OptState
    critic_opt: optax.OptState


def init(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Fresh networks for these spaces, from the configuration's seed."""
    # One program, with the seed as an argument, rather than dozens of small ones.
    make = jax.jit(lambda key: _fresh(config, observation_space, action_space, key))
    return to_host(make(jax.random.key(config.seed)))


def _fresh(
    config: Config, observation_space: gym.Space, action_space: gym.Space, key: PRNGKeyArray
) -> TrainState:
    networks = fresh_networks(config, observation_space, action_space, key)
    return TrainState(*networks, *(init_optimizer(config, network) for network in networks))


def blank(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """The shapes and types of what `init` makes, without making it."""
    make = functools.partial(_fresh, config, observation_space, action_space)
    return jax.eval_shape(make, jax.random.key(0))


def generation(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, learning_rate: float
) -> Update:
    """One update of everything from one batch: two programs side by side, one transfer back.

    The value fit needs nothing of the experts, nor they of it, so it runs beside them.
    """
    fit, find = _calls(config, key, state, batch, learning_rate)
    # In this order: both calls return before their results are there.
    (critic, fitted), (policy, info, experts, advantages) = jax.device_get((fit(), find()))
    info = {name: float(value) for name, value in (info | fitted).items()}
    networks = (policy[0], critic[0], policy[1], critic[1])
    return Update(TrainState(*networks), info, experts, advantages)


def rehearse(configs: Sequence[Config], key: PRNGKeyArray, state: TrainState, batch: Batch) -> None:
    """Compiles what `generation` calls with each of these, side by side: it takes a while.

    They are one run's: what is fitted to the values does not differ.
    """
    calls = [_calls(config, key, state, batch, config.learning_rate) for config in configs]
    programs = [calls[0][0], *(find for _, find in calls)]
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(lambda program: jax.block_until_ready(program()), programs))


def _calls(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, learning_rate: float
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The value fit and the update of the policy."""
    config, rate = resolve(config), np.float32(learning_rate)

    def fit():
        args = jax.device_put((key, state.critic, state.critic_opt, batch, rate), _beside())
        return _critic_program(_static(warmup_of(config)), *args)

    return fit, lambda: _policy_program(_static(config), key, state, batch, rate)


def _beside() -> Any:
    """Where the critic is fitted: a device that no expert needs, if there is one."""
    return jax.devices()[-1]


def _static(config: Config) -> Config:
    """Blanks what the compiled program does not depend on, so that equal programs are shared."""
    fixed = {"seed": 0, "total_steps": config.batch_size, "learning_rate": 1.0, "warmup": 0.0}
    names = ("backend", "workers", "warmup_floor", "network", "hidden", "activation", "frame_stack")
    same = {name: getattr(Config, name) for name in names}
    return config.replace(env_id="", diagnostics=0, **fixed, **same)


@functools.partial(jax.jit, static_argnames="config")
def _policy_program(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, rate: Float[Array, ""]
):
    """The next policy with its optimizer state, what to report, the experts, the advantages."""
    method = method_of(config.algo)
    _, advantages, expert_advantages = advantages_of(config, state.critic, batch)
    samples, surrogate_of = samples_of(state.policy, batch, advantages, config)
    depth = method.depth(config)
    share = shares(jax.random.fold_in(key, 0), expert_advantages, depth, config)
    trained = train_experts(
        method.rule(config), state.policy, state.policy_opt, samples, share, rate, config
    )
    dists = jax.vmap(lambda p: p(samples.obs))(trained.policy)
    found = Experts(*trained[:3], dists, jax.vmap(surrogate_of)(dists))
    good = finite_rows(found)
    experts = mend(found, good)._replace(good=good)

    policy, policy_opt, info = _next_policy(config, state, experts, samples)
    info |= {name: jnp.mean(value, where=good) for name, value in trained.info.items()}
    info |= _of_experts(policy.family, experts, samples)
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
        info |= theorem(policy.family, *ends, config.delta, good)
    return (policy, policy_opt), info, trained.policy, advantages.reshape(-1)


@functools.partial(jax.jit, static_argnames="config")
def _critic_program(
    config: Config,
    key: PRNGKeyArray,
    critic: Critic,
    opt_state: optax.OptState,
    batch: Batch,
    rate: Float[Array, ""],
):
    """The next critic with its optimizer state, the old ones if not finite; what to report."""
    values, advantages, _ = advantages_of(config, critic, batch)
    targets = (advantages + values).reshape(-1)
    obs = batch.obs.reshape(-1, *batch.obs.shape[2:])
    order = permutations(jax.random.fold_in(key, 1), config.epochs, obs.shape[0])
    indices = order.reshape(config.epochs, config.minibatches, -1)
    *new, error = fit_critic(critic, opt_state, obs, targets, indices, rate, config)
    sound = all_finite((new, error))
    unexplained = jnp.var(targets - values.reshape(-1)) / (jnp.var(targets) + 1e-12)
    info = {
        "value_loss": error,
        "explained_variance": 1 - unexplained,
        "nonfinite/critic": 1.0 - sound,
    }
    return tree_where(sound, tuple(new), (critic, opt_state)), info


def advantages_of(config: Config, critic: Critic, batch: Batch):
    """V(s), the advantages, and each expert's own advantages in a flat batch."""
    ends = (batch.terminated, batch.truncated)
    if config.truncation == "terminate":
        ends = (batch.terminated | batch.truncated, batch.truncated)
    values, next_values = critic(batch.obs), critic(batch.next_obs)

    def with_lambda(lam):
        return gae(batch.rewards, values, next_values, *ends, config.gamma, lam)

    advantages = with_lambda(config.gae_lambda)
    width = method_of(config.algo).width(config)
    own = jnp.broadcast_to(advantages, (width, *advantages.shape))
    if config.diversity == "gae-lambda":
        own = jax.vmap(with_lambda)(gae_lambdas(config.gae_lambda, width))
    return values, advantages, own.reshape(width, -1)


def samples_of(
    policy: Policy, batch: Batch, advantages: Float[Array, "steps envs"], config: Config
):
    """The flat batch as the incumbent sees it, and dist ↦ clipped surrogate over all of it."""
    obs, actions = (x.reshape(-1, *x.shape[2:]) for x in (batch.obs, batch.actions))
    dist = policy(obs)
    log_prob = policy.family.log_prob(dist, actions)
    gains = standardize(advantages.reshape(-1))

    def surrogate(other: Float[Array, "n params"]) -> Float[Array, ""]:
        ratio = jnp.exp(policy.family.log_prob(other, actions) - log_prob)
        return jnp.mean(clipped_surrogate(ratio, gains, config.clip))

    return Samples(obs, actions, dist, log_prob), surrogate


def _next_policy(config: Config, state: TrainState, experts: Experts, samples: Samples):
    """The next policy, its optimizer state and what to report; the old ones if not finite."""
    policy, info = _aggregate(config, state.policy, experts, samples)
    policy_opt = _carry(config, state.policy_opt, state.policy, experts)
    sound = all_finite((experts, policy, policy_opt, policy(samples.obs)))
    info["nonfinite/policy"] = 1.0 - sound
    old = (state.policy, state.policy_opt)
    return *tree_where(sound, (policy, policy_opt), old), info


def _aggregate(config: Config, incumbent: Policy, experts: Experts, samples: Samples):
    """Aggregates, distils and searches the line, as far as each is switched on."""
    policy, target = method_of(config.algo).aggregate(experts)
    info = {}
    if config.distill == "on":
        target = policy(samples.obs) if target is None else target
        student = incumbent if config.distill_init == "incumbent" else policy
        policy, info = distill(student, target, samples.dist, samples.obs, config)
    if config.line_search != "off":
        policy, found = line_search(incumbent, policy, samples.dist, samples.obs, config)
        info |= found
    return policy, info


def _carry(config: Config, old: optax.OptState, policy: Policy, experts: Experts) -> optax.OptState:
    """The optimizer state that the next generation's experts start from."""
    match config.carry:
        case "incumbent":
            return old
        case "reset":
            return init_optimizer(config, policy)
        case "best":
            return tree_pick(experts.opt_state, best_of(experts))
        case _:
            return tree_mean(experts.opt_state, experts.good)


def _of_experts(family: Family, experts: Experts, samples: Samples):
    """What the experts that count did, on average."""
    kl = jax.vmap(lambda d: jnp.mean(family.kl(samples.dist, d)))(experts.dist)
    return {
        "expert_kl": jnp.mean(kl, where=experts.good),
        "expert_kl_max": jnp.max(kl),
        "expert_surrogate": jnp.mean(experts.surrogate, where=experts.good),
    }
