"""Collecting one batch with the incumbent, and its advantages."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num, Shaped

from capo.config import Config
from capo.envs import EnvError, VectorEnv, to_env
from capo.networks import Policy
from capo.normalize import RunningStats, as_float32, discounted_returns
from capo.observations import Encoder, prepare, preparing

RENEW_STEPS = 10_000
"""After about as many steps all environments begin new episodes from a seed."""
RESETS = 1
"""Keeps the draws of these seeds apart from those of the actions."""
LARGEST = np.finfo(np.float32).max


class Batch(NamedTuple):
    """What K experts are trained on: T steps of N environments, normalised.

    `next_obs` is the observation each action led to, the true final one where an episode ended.
    """

    obs: Shaped[Any, "steps envs *obs"]
    next_obs: Shaped[Any, "steps envs *obs"]
    actions: Num[Any, "steps envs *event"]
    rewards: Float[Any, "steps envs"]
    terminated: Bool[Any, "steps envs"]
    truncated: Bool[Any, "steps envs"]


class Collector(NamedTuple):
    """Where the environments stand and what has been seen of them."""

    obs: np.ndarray
    obs_stats: RunningStats
    return_stats: RunningStats
    accumulators: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    seed: int
    """What all environments were last reset from."""
    played: tuple[np.ndarray, ...] = ()
    """The actions since then, one array a batch: they lead back to where the environments stand."""

    @staticmethod
    def init(env: VectorEnv, config: Config) -> "Collector":
        """Resets the environments and starts the statistics."""
        stats = Encoder.of(config, env.observation_space).blank_stats()
        return Collector.begin(env, stats, RunningStats.init(), config.seed)

    @staticmethod
    def begin(
        env: VectorEnv, obs_stats: RunningStats, return_stats: RunningStats, seed: int
    ) -> "Collector":
        """Resets the environments and goes on with statistics there are."""
        zeros = np.zeros(env.num_envs)
        return Collector(env.reset(seed), obs_stats, return_stats, zeros, zeros, zeros, seed)

    def renewed(self, env: VectorEnv, config: Config, index: int) -> "Collector":
        """Begins new episodes after generation `index`, if it is one of those that do.

        Episodes in progress end there, bootstrapped like all that goes on beyond a batch. So the
        environments never stand further than some ten thousand steps from a seed, and a checkpoint
        needs no more than these actions to bring any environment back.
        """
        if (index + 1) % math.ceil(RENEW_STEPS / config.num_steps):
            return self
        return Collector.begin(env, self.obs_stats, self.return_stats, reset_seed(config, index))

    def replay(self, env: VectorEnv) -> np.ndarray:
        """Brings the environments to where they stood; returns what is seen there."""
        obs = env.reset(self.seed)
        for actions in self.played:
            for action in actions:
                obs = env.step(action).obs
        return obs


class Episodes(NamedTuple):
    """Returns and lengths, undiscounted and not normalised, of the episodes that ended."""

    returns: list[float]
    lengths: list[int]


def collect(
    env: VectorEnv, policy: Policy, state: Collector, config: Config, rng: np.random.Generator
) -> tuple[Collector, Batch, Episodes]:
    """Steps the environments `num_steps` times with actions drawn from `policy` (on the host).

    The observation statistics stay fixed while acting and take the batch in afterwards. The very
    first batch is normalised by its own statistics instead: the policy's head is near zero then,
    so it acted in the same way.
    """
    steps, envs = config.num_steps, env.num_envs
    act = policy.actor(policy.family.noise(rng, (steps, envs)))
    seen = preparing(config, state.obs_stats)
    raw_obs = np.empty((steps, *state.obs.shape), state.obs.dtype)
    raw_next, actions, taken = np.empty_like(raw_obs), [], []
    rewards = np.empty((steps, envs))
    ends = np.empty((2, steps, envs), bool)
    obs = state.obs
    for t in range(steps):
        raw_obs[t] = obs
        _check_range(config.env_id, "observation", raw_obs[t : t + 1], t)
        action = act(t, seen(obs))
        taken.append(to_env(env.action_space, action))
        obs, raw_next[t], rewards[t], *ends[:, t] = env.step(taken[-1])
        actions.append(action)
    _check_range(config.env_id, "observation", raw_next, 1)
    _check_range(config.env_id, "reward", rewards, 1)
    done = ends[0] | ends[1]
    encoder = Encoder.of(config, env.observation_space)
    with np.errstate(over="ignore", invalid="ignore"):
        obs_stats = encoder.update_stats(state.obs_stats, raw_obs.reshape(-1, *obs.shape[1:]))
    _check_stats(config.env_id, obs_stats, raw_obs)
    (discounted, *whole), sums = _sums(rewards, done, state, config.gamma)
    return_stats = state.return_stats.update(discounted.reshape(-1))
    used = state.obs_stats if state.obs_stats.seen else obs_stats
    before, after = (prepare(config, used, raw) for raw in (raw_obs, raw_next))
    scaled = return_stats.scale(rewards) if config.normalize_reward else as_float32(rewards)
    batch = Batch(before, after, np.stack(actions), scaled, ends[0], ends[1])
    totals, counts = (values[done].tolist() for values in whole)
    episodes = Episodes(totals, [int(count) for count in counts])
    played = (*state.played, np.stack(taken))
    stands = Collector(obs, obs_stats, return_stats, *sums, seed=state.seed, played=played)
    return stands, batch, episodes


def reset_seed(config: Config, index: int) -> int:
    """The seed of the episodes that begin after generation `index`: a function of the run's."""
    draw = np.random.default_rng([config.seed, index + 1, RESETS])
    return int(draw.integers(2**31 - config.num_envs))


def _check_range(task: str, what: str, values: np.ndarray, first: int) -> None:
    """Refuses what is not a number or none in float32, naming the environment and the step.

    `values` are of some steps, from step `first` of the rollout on. What is acted on is looked at
    before, the rest once the batch is full. With rewards in that range, their sums, squares and
    statistics, in float64, are finite too.
    """
    # The sum of squares is one quick call; what it does not vouch for is looked at closely.
    if values.dtype.kind != "f" or np.vdot(values, values) <= LARGEST:
        return
    bad = ~(np.abs(values) <= LARGEST).reshape(*values.shape[:2], -1).all(axis=-1)
    if bad.any():
        step, index = np.argwhere(bad)[0]
        finite = np.isfinite(values[step, index]).all()
        raise EnvError(
            f"{task}: environment {index} returned a {'too large' if finite else 'non-finite'} "
            f"{what} at step {first + step} of the rollout"
        )


def _check_stats(task: str, stats: RunningStats, raw_obs: np.ndarray) -> None:
    """Refuses observations that the running variance overflows with: squares in their own type."""
    if np.isfinite(stats.mean).all() and np.isfinite(stats.var).all():
        return
    step, index, *_ = np.unravel_index(np.argmax(np.abs(raw_obs)), raw_obs.shape)
    raise EnvError(
        f"{task}: environment {index} returned a too large observation at step {max(step, 1)} "
        f"of the rollout: {np.abs(raw_obs).max():.3g} overflows the running statistics"
    )


def _sums(rewards: np.ndarray, done: np.ndarray, state: Collector, gamma: float):
    """Each episode so far, in one pass: its discounted return, its return, its length.

    Of every step, and what to go on from in the next batch.
    """
    terms = np.stack([rewards, rewards, np.ones_like(rewards)], axis=1)
    begun = np.stack([state.accumulators, state.episode_return, state.episode_length])
    found, left = discounted_returns(terms, done[:, None], begun, np.array([[gamma], [1.0], [1.0]]))
    return found.swapaxes(0, 1), left


def gae(
    rewards: Float[Array, "steps envs"],
    values: Float[Array, "steps envs"],
    next_values: Float[Array, "steps envs"],
    terminated: Bool[Array, "steps envs"],
    truncated: Bool[Array, "steps envs"],
    gamma: float,
    lam: float | Float[Array, ""],
) -> Float[Array, "steps envs"]:
    """Generalised advantages: δ_t = r_t + γ V(s'_t)(1 − terminated_t) − V(s_t),
    A_t = δ_t + γλ (1 − done_t) A_{t+1}.

    `next_values` are of the observation each action led to, so a truncated step bootstraps from
    its true final observation, and the last step of the batch needs no case of its own.
    """
    delta = rewards + gamma * next_values * ~terminated - values
    decay = gamma * lam * ~(terminated | truncated)

    def backward(after, step):
        delta_t, decay_t = step
        advantage = delta_t + decay_t * after
        return advantage, advantage

    start = jnp.zeros_like(values[0])
    return jax.lax.scan(backward, start, (delta, decay), reverse=True, unroll=8)[1]
