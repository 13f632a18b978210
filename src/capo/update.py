"""One generation's update of everything from one batch: a single compiled call."""

import functools
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from capo.config import Config
from capo.consensus import Experts, best_of, theorem, tree_mean, tree_pick
from capo.critic import fit_critic
from capo.distill import batch_kl, distill, line_search
from capo.experts import gae_lambdas, permutations, shares, train_experts
from capo.families import Family
from capo.finite import all_finite, finite_rows, mend, tree_where
from capo.methods import method_of, resolve
from capo.model import fresh_networks
from capo.networks import Critic, Policy, to_host
from capo.ppo import Samples, clipped_surrogate, init_optimizer, standardize
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
    return to_host(_fresh(config, observation_space, action_space))


def _fresh(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    networks = fresh_networks(config, observation_space, action_space)
    return TrainState(*networks, *(init_optimizer(config, network) for network in networks))


def blank(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """The shapes and types of what `init` makes, without making it."""
    return jax.eval_shape(lambda: _fresh(config, observation_space, action_space))


def generation(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, learning_rate: float
) -> Update:
    """One update of everything from one batch: a single compiled call, a single transfer back."""
    static = _static(resolve(config))
    out = Update(*jax.device_get(_generation(static, key, state, batch, np.float32(learning_rate))))
    return out._replace(info={name: float(value) for name, value in out.info.items()})


def _static(config: Config) -> Config:
    """Blanks what the compiled program does not depend on, so that equal programs are shared."""
    fixed = {"seed": 0, "total_steps": config.batch_size, "learning_rate": 1.0, "warmup": 0.0}
    names = ("backend", "warmup_floor", "network", "hidden", "activation", "frame_stack")
    same = {name: getattr(Config, name) for name in names}
    return config.replace(env_id="", diagnostics=0, **fixed, **same)


@functools.partial(jax.jit, static_argnames="config")
def _generation(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, rate: Float[Array, ""]
):
    """Advantages, experts, consensus, critic: the fields of `Update`, on the devices."""
    method = method_of(config.algo)
    values, advantages, expert_advantages = advantages_of(config, state.critic, batch)
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
    order = permutations(jax.random.fold_in(key, 1), config.epochs, samples.obs.shape[0])
    indices = order.reshape(config.epochs, config.minibatches, -1)
    targets = (advantages + values).reshape(-1)
    critic, critic_opt, fit = _next_critic(config, state, samples.obs, targets, indices, rate)

    unexplained = jnp.var(targets - values.reshape(-1)) / (jnp.var(targets) + 1e-12)
    info |= {name: jnp.mean(value, where=good) for name, value in trained.info.items()}
    info |= fit | _of_experts(policy.family, experts, samples)
    info |= {
        "kl": batch_kl(policy, samples.obs, samples.dist),
        "entropy": jnp.mean(policy.family.entropy(policy(samples.obs))),
        "surrogate": surrogate_of(policy(samples.obs)),
        "explained_variance": 1 - unexplained,
        "nonfinite/experts": jnp.sum(~good).astype(float),
    }
    if dists.shape[0] > 1:
        gains = standardize(advantages.reshape(-1))
        network = policy(samples.obs)
        ends = (samples.dist, experts.dist, network, samples.actions, gains)
        info |= theorem(policy.family, *ends, config.delta, good)
    state = TrainState(policy, critic, policy_opt, critic_opt)
    return state, info, trained.policy, advantages.reshape(-1)


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


def _next_critic(config: Config, state: TrainState, obs, targets, indices, rate):
    """The next critic, its optimizer state and what to report; the old ones if not finite."""
    old = (state.critic, state.critic_opt)
    *new, error = fit_critic(*old, obs, targets, indices, rate, config)
    sound = all_finite((new, error))
    info = {"value_loss": error, "nonfinite/critic": 1.0 - sound}
    return *tree_where(sound, tuple(new), old), info


def _of_experts(family: Family, experts: Experts, samples: Samples):
    """What the experts that count did, on average."""
    kl = jax.vmap(lambda d: jnp.mean(family.kl(samples.dist, d)))(experts.dist)
    return {
        "expert_kl": jnp.mean(kl, where=experts.good),
        "expert_kl_max": jnp.max(kl),
        "expert_surrogate": jnp.mean(experts.surrogate, where=experts.good),
    }
