"""The generation loop: collect, train experts, aggregate, fit the critic."""

import functools
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from capo.config import Config
from capo.consensus import Experts, tree_mean, tree_pick
from capo.critic import fit_critic
from capo.distill import batch_kl, distill, line_search
from capo.envs import VectorEnv, check_spaces, make
from capo.experts import gae_lambdas, permutations, prepare_devices, shares, train_experts
from capo.families import family_for
from capo.methods import method_of, resolve, warmup_of
from capo.model import Model
from capo.networks import Critic, Policy, init_critic, init_policy, to_host
from capo.ppo import Samples, clipped_surrogate, init_optimizer, standardize
from capo.rollout import Batch, Collector, collect, gae

RETURN_WINDOW = 100
"""Episodes that the reported return is the mean of."""


class TrainState(NamedTuple):
    """The learner between two generations, on the host."""

    policy: Policy
    critic: Critic
    policy_opt: optax.OptState
    critic_opt: optax.OptState


class Generation(NamedTuple):
    """One turn of the loop: the new state, the model so far, a flat dictionary of what happened."""

    number: int
    state: TrainState
    collector: Collector
    model: Model
    info: dict[str, float]


def init(config: Config, observation_space: gym.Space, action_space: gym.Space) -> TrainState:
    """Fresh networks for these spaces, from the configuration's seed."""
    check_spaces(observation_space)
    family = family_for(action_space)
    policy_key, critic_key = jax.random.split(jax.random.key(config.seed))
    assert observation_space.shape is not None
    size = observation_space.shape[0]
    policy = init_policy(policy_key, size, family, config.hidden, config.state_dependent_std)
    critic = init_critic(critic_key, size, config.hidden)
    states = (init_optimizer(config, network) for network in (policy, critic))
    return to_host(TrainState(policy, critic, *states))


def generation(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, learning_rate: float
) -> tuple[TrainState, dict[str, float]]:
    """One update of everything from one batch: a single compiled call, a single transfer back."""
    static = _static(resolve(config))
    out = _generation(static, key, state, batch, np.float32(learning_rate))
    state, info = jax.device_get(out)
    return state, {name: float(value) for name, value in info.items()}


def _static(config: Config) -> Config:
    """Blanks what the compiled program does not depend on, so that equal programs are shared."""
    fixed = {"seed": 0, "total_steps": config.batch_size, "learning_rate": 1.0, "warmup": 0.0}
    return config.replace(env_id="", warmup_floor=None, backend="auto", **fixed)


@functools.partial(jax.jit, static_argnames="config")
def _generation(
    config: Config, key: PRNGKeyArray, state: TrainState, batch: Batch, rate: Float[Array, ""]
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    method = method_of(config.algo)
    values, advantages, expert_advantages = _advantages(config, state.critic, batch)
    samples, actor_loss_of = _samples(state.policy, batch, advantages, config)
    depth = method.depth(config)
    share = shares(jax.random.fold_in(key, 0), expert_advantages, depth, config)
    trained = train_experts(
        method.rule(config), state.policy, state.policy_opt, samples, share, rate, config
    )
    dists = jax.vmap(lambda p: p(samples.obs))(trained.policy)
    surrogates = jax.vmap(actor_loss_of)(dists)
    experts = Experts(trained.policy, trained.opt_state, trained.mean_iterate, dists, surrogates)

    policy, info = _next_policy(config, state.policy, experts, samples)
    policy_opt = _carry(config, state.policy_opt, state.policy, experts)

    order = permutations(jax.random.fold_in(key, 1), config.epochs, samples.obs.shape[0])
    indices = order.reshape(config.epochs, config.minibatches, -1)
    targets = (advantages + values).reshape(-1)
    critic, critic_opt, value_error = fit_critic(
        state.critic, state.critic_opt, samples.obs, targets, indices, rate, config
    )
    expert_kl = jax.vmap(lambda d: jnp.mean(policy.family.kl(samples.dist, d)))(dists)
    unexplained = jnp.var(targets - values.reshape(-1)) / (jnp.var(targets) + 1e-12)
    info |= {name: jnp.mean(value) for name, value in trained.info.items()}
    info |= {
        "kl": batch_kl(policy, samples.obs, samples.dist),
        "expert_kl": jnp.mean(expert_kl),
        "expert_kl_max": jnp.max(expert_kl),
        "entropy": jnp.mean(policy.family.entropy(policy(samples.obs))),
        "surrogate": actor_loss_of(policy(samples.obs)),
        "expert_surrogate": jnp.mean(surrogates),
        "value_loss": value_error,
        "explained_variance": 1 - unexplained,
    }
    return TrainState(policy, critic, policy_opt, critic_opt), info


def _advantages(config: Config, critic: Critic, batch: Batch):
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


def _samples(policy: Policy, batch: Batch, advantages: Float[Array, "steps envs"], config: Config):
    """The flat batch as the incumbent sees it, and dist ↦ clipped surrogate over all of it."""
    obs, actions = (x.reshape(-1, *x.shape[2:]) for x in (batch.obs, batch.actions))
    dist = policy(obs)
    log_prob = policy.family.log_prob(dist, actions)
    gains = standardize(advantages.reshape(-1))

    def surrogate(other: Float[Array, "n params"]) -> Float[Array, ""]:
        ratio = jnp.exp(policy.family.log_prob(other, actions) - log_prob)
        return jnp.mean(clipped_surrogate(ratio, gains, config.clip))

    return Samples(obs, actions, dist, log_prob), surrogate


def _next_policy(config: Config, incumbent: Policy, experts: Experts, samples: Samples):
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
            return tree_pick(experts.opt_state, jnp.argmax(experts.surrogate))
        case _:
            return tree_mean(experts.opt_state)


def learning_rate(config: Config, index: int) -> float:
    """Linear from `learning_rate` to 0 over the generations, one value a generation."""
    left = 1 - index / config.generations if config.anneal_lr else 1.0
    return config.learning_rate * left


def compile_generation(
    config: Config, observation_space: gym.Space, action_space: gym.Space
) -> float:
    """Compiles ahead what a run will call, on a batch of zeros; returns the seconds it took."""
    prepare_devices(method_of(config.algo).width(config))
    began = time.perf_counter()
    state = init(config, observation_space, action_space)
    shape = (config.num_steps, config.num_envs)
    obs = np.zeros((*shape, *(observation_space.shape or ())), np.float32)
    family = state.policy.family
    noise = family.noise(np.random.default_rng(0), shape)
    actions = family.sample(np.zeros((*shape, family.size), np.float32), noise)
    flags = np.zeros(shape, bool)
    batch = Batch(obs, obs, actions, np.zeros(shape, np.float32), flags, flags)
    for phase in [warmup_of(config), config] if _warms_up(config) else [config]:
        generation(phase, jax.random.key(0), state, batch, 0.0)
    return time.perf_counter() - began


def _warms_up(config: Config) -> bool:
    return method_of(config.algo).wide and config.warmup > 0


def generations(config: Config, env: VectorEnv | None = None) -> Iterator[Generation]:
    """Trains, yielding after every generation; the whole run is a function of the configuration.

    An environment that is passed in is the caller's to close.
    """
    config = resolve(config)
    prepare_devices(method_of(config.algo).width(config))
    if env is not None:
        yield from _loop(config, env)
        return
    env = make(config.env_id, config.num_envs, config.seed, config.backend)
    try:
        yield from _loop(config, env)
    finally:
        env.close()


def _loop(config: Config, env: VectorEnv) -> Iterator[Generation]:
    spaces = (env.observation_space, env.action_space)
    state, collector = init(config, *spaces), Collector.init(env)
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    returns: deque[float] = deque(maxlen=RETURN_WINDOW)
    lengths: deque[int] = deque(maxlen=RETURN_WINDOW)
    warming = _warms_up(config)
    began = time.perf_counter()
    for index in range(config.generations):
        warming = warming and not _warm(config, index, returns)
        started = time.perf_counter()
        rng = np.random.default_rng([config.seed, index])
        collector, batch, episodes = collect(env, state.policy, collector, config, rng)
        returns.extend(episodes.returns)
        lengths.extend(episodes.lengths)
        collected = time.perf_counter()
        phase, rate = warmup_of(config) if warming else config, learning_rate(config, index)
        state, info = generation(phase, jax.random.fold_in(key, index), state, batch, rate)
        now = time.perf_counter()
        row = {
            "generation": float(index),
            "steps": float((index + 1) * config.batch_size),
            "return": _mean(returns),
            "length": _mean(lengths),
            "episodes": float(len(episodes.returns)),
            "warmup": float(warming),
            "learning_rate": rate,
            **info,
            "seconds": now - began,
            "collect_seconds": collected - started,
            "update_seconds": now - collected,
        }
        stats = (collector.obs_stats, collector.return_stats)
        model = Model(config, *spaces, state.policy, state.critic, *stats)
        yield Generation(index, state, collector, model, row)


def learn(config: Config, env: VectorEnv | None = None) -> Model:
    """Trains to the end and returns the model."""
    last = deque(generations(config, env), maxlen=1)
    return last[0].model


def _warm(config: Config, index: int, returns: deque[float]) -> bool:
    """Whether the warmup is over before generation `index`."""
    if config.warmup_floor is not None and returns and _mean(returns) > config.warmup_floor:
        return True
    return index >= config.warmup * config.generations


def _mean(values: deque) -> float:
    return sum(values) / len(values) if values else math.nan
