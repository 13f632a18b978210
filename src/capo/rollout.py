"""Collection of a batch with the incumbent policy."""

import math
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from capo.config import Config
from capo.core.batch import Batch
from capo.core.encoding import Encoder, prepare, preparing
from capo.core.families import to_env
from capo.core.family import Family
from capo.core.networks import Policy
from capo.core.noise import MEMORY, coloured
from capo.core.normalize import RunningStats, as_float32, discounted_returns
from capo.envs.base import VectorEnv
from capo.errors import EnvError

RESTART_STEPS = 10_000
"""All environments are reset from a new seed about every so many steps."""
RESET_STREAM, EARLIER_STREAM = 1, 2
"""Streams of the random generator apart from the one for actions: reset seeds, and the action noise
before the first batch."""
FLOAT32_MAX = np.finfo(np.float32).max


def batch_shapes(config: Config, observation_space: gym.Space, family: Family) -> Batch:
    """Shapes and types of a run's batches; no array of their size is made."""
    encoder, steps = Encoder.of(config, observation_space), (config.num_steps, config.num_envs)
    noise = family.draw(np.random.default_rng(0), (1,))
    action = family.sample(np.zeros((1, family.size), np.float32), noise)

    def like(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*steps, *shape), dtype)

    obs = like(encoder.shape, encoder.dtype if encoder.image else np.float32)
    return Batch(
        obs=obs,
        next_obs=obs,
        actions=like(action.shape[1:], action.dtype),
        rewards=like((), np.float32),
        terminated=like((), bool),
        truncated=like((), bool),
    )


class Collector(NamedTuple):
    """State of the environments between two batches, and the running statistics."""

    obs: np.ndarray
    obs_stats: RunningStats
    return_stats: RunningStats
    accumulators: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    seed: int
    """The seed of the last reset of all environments."""
    played: tuple[np.ndarray, ...] = ()
    """The actions since that reset, one array a batch; `replay` repeats them."""

    @staticmethod
    def init(env: VectorEnv, config: Config) -> "Collector":
        """Resets the environments and starts the statistics."""
        stats = Encoder.of(config, env.observation_space).blank_stats()
        return Collector.waiting(stats, RunningStats.init()).restart(env, config, -1)

    @staticmethod
    def waiting(obs_stats: RunningStats, return_stats: RunningStats) -> "Collector":
        """The given statistics, and no episodes."""
        nothing = np.zeros(0)
        return Collector(
            obs=nothing,
            obs_stats=obs_stats,
            return_stats=return_stats,
            accumulators=nothing,
            episode_return=nothing,
            episode_length=nothing,
            seed=0,
        )

    @property
    def in_episodes(self) -> bool:
        """Whether there are episodes in progress."""
        return self.obs.size > 0

    def restart(self, env: VectorEnv, config: Config, index: int) -> "Collector":
        """Resets the environments after generation `index`; the statistics stay."""
        zeros, seed = np.zeros(env.num_envs), reset_seed(config, index)
        return Collector(
            obs=env.reset(seed),
            obs_stats=self.obs_stats,
            return_stats=self.return_stats,
            accumulators=zeros,
            episode_return=zeros,
            episode_length=zeros,
            seed=seed,
        )

    def restart_if_due(self, env: VectorEnv, config: Config, index: int) -> "Collector":
        """Resets all environments after generation `index`, about every `RESTART_STEPS` steps.

        The episodes in progress are cut there, with the bootstrap of any episode that continues
        beyond its batch. The environments are thus never more than some ten thousand steps away
        from a seed, and a checkpoint restores any environment from the seed and these actions.
        """
        if (index + 1) % math.ceil(RESTART_STEPS / config.num_steps):
            return self
        return self.restart(env, config, index)

    def replay(self, env: VectorEnv) -> np.ndarray:
        """Brings the environments back to this state; returns the observation there."""
        obs = env.reset(self.seed)
        for actions in self.played:
            for action in actions:
                obs = env.step(action).obs
        return obs


class Episodes(NamedTuple):
    """Returns and lengths of the episodes that ended, undiscounted and not normalised."""

    returns: list[float]
    lengths: list[int]
    successes: list[float]
    """Of the episodes whose environment says whether they succeeded (`info["is_success"]`)."""


def collect(
    env: VectorEnv, policy: Policy, state: Collector, config: Config, index: int
) -> tuple[Collector, Batch, Episodes]:
    """Steps the environments `num_steps` times with actions sampled from `policy` on the host.

    The seed of the configuration and the number `index` of the generation decide the action noise.
    The observation statistics are fixed during the rollout and updated with the batch afterwards.
    The first batch is normalised by its own statistics instead: the policy's head is near zero
    then, so it acts in the same way with either.
    """
    steps, envs = config.num_steps, env.num_envs
    act = policy.actor(action_noise(config, policy.family, index))
    normalize = preparing(config, state.obs_stats)
    raw_obs = np.empty((steps, *state.obs.shape), state.obs.dtype)
    raw_next, actions, env_actions = np.empty_like(raw_obs), [], []
    rewards = np.empty((steps, envs))
    ends = np.empty((2, steps, envs), bool)
    obs, successes = state.obs, []
    for t in range(steps):
        raw_obs[t] = obs
        _check_range(config.env_id, "observation", raw_obs[t : t + 1], t)
        action = act(t, normalize(obs))
        env_actions.append(to_env(env.action_space, action))
        step = env.step(env_actions[-1])
        obs, raw_next[t], rewards[t] = step.obs, step.next_obs, step.reward
        ends[0, t], ends[1, t] = step.terminated, step.truncated
        if step.success is not None and ends[:, t].any():
            ended = step.success[ends[0, t] | ends[1, t]]
            successes += ended[~np.isnan(ended)].tolist()
        actions.append(action)
    _check_range(config.env_id, "observation", raw_next, 1)
    _check_range(config.env_id, "reward", rewards, 1)
    done = ends[0] | ends[1]
    encoder = Encoder.of(config, env.observation_space)
    with np.errstate(over="ignore", invalid="ignore"):
        obs_stats = encoder.update_stats(state.obs_stats, raw_obs.reshape(-1, *obs.shape[1:]))
    _check_stats(config.env_id, obs_stats, raw_obs)
    (discounted, *undiscounted), sums = _episode_sums(rewards, done, state, config.gamma)
    return_stats = state.return_stats.update(discounted.reshape(-1))
    used = state.obs_stats if state.obs_stats.seen else obs_stats
    before, after = (prepare(config, used, raw) for raw in (raw_obs, raw_next))
    scaled = return_stats.scale(rewards) if config.normalize_reward else as_float32(rewards)
    batch = Batch(
        obs=before,
        next_obs=after,
        actions=np.stack(actions),
        rewards=scaled,
        terminated=ends[0],
        truncated=ends[1],
    )
    returns, lengths = (values[done].tolist() for values in undiscounted)
    episodes = Episodes(returns, [int(length) for length in lengths], successes)
    accumulators, episode_return, episode_length = sums
    collector = Collector(
        obs=obs,
        obs_stats=obs_stats,
        return_stats=return_stats,
        accumulators=accumulators,
        episode_return=episode_return,
        episode_length=episode_length,
        seed=state.seed,
        played=(*state.played, np.stack(env_actions)),
    )
    return collector, batch, episodes


def action_noise(config: Config, family: Family, index: int) -> np.ndarray:
    """The noise for `family.sample` in generation `index`, the same whenever it is asked for.

    Coloured noise is a function of the white noise of this generation and of those before it, so a
    resumed run continues its colour without any state.
    """
    earlier = math.ceil((MEMORY - 1) / config.num_steps) if config.action_noise else 0
    blocks = [_normals(config, family, index - back) for back in range(earlier, -1, -1)]
    if not earlier:
        return family.noise(blocks[0])
    white = np.concatenate(blocks)[-(MEMORY - 1 + config.num_steps) :]
    return family.noise(coloured(white, config.action_noise))


def _normals(config: Config, family: Family, index: int) -> np.ndarray:
    """Independent standard normals for every step of a generation."""
    stream = [config.seed, index] if index >= 0 else [config.seed, -index, EARLIER_STREAM]
    shape = (config.num_steps, config.num_envs, family.noise_size)
    return np.random.default_rng(stream).standard_normal(shape, dtype=np.float32)


def reset_seed(config: Config, index: int) -> int:
    """The seed of the reset after generation `index`: that of the run before the first.

    The others are derived from it.
    """
    if index < 0:
        return config.seed
    rng = np.random.default_rng([config.seed, index + 1, RESET_STREAM])
    return int(rng.integers(2**31 - config.num_envs))


def _check_range(task: str, what: str, values: np.ndarray, first: int) -> None:
    """Raises EnvError for values that are not finite in float32; names environment and step.

    `values` start at step `first` of the rollout. Observations are checked before the policy sees
    them, final observations and rewards once the batch is full. Sums, squares and statistics of
    rewards in that range are finite in float64.
    """
    # The sum of squares is one fast call; the exact check follows only where it is too large.
    if values.dtype.kind != "f" or np.vdot(values, values) <= FLOAT32_MAX:
        return
    bad = ~(np.abs(values) <= FLOAT32_MAX).reshape(*values.shape[:2], -1).all(axis=-1)
    if bad.any():
        step, index = np.argwhere(bad)[0]
        finite = np.isfinite(values[step, index]).all()
        raise EnvError(
            f"{task}: environment {index} returned a {'too large' if finite else 'non-finite'} "
            f"{what} at step {first + step} of the rollout"
        )


def _check_stats(task: str, stats: RunningStats, raw_obs: np.ndarray) -> None:
    """Raises EnvError for observations whose squares, in their own type, overflow the variance."""
    if np.isfinite(stats.mean).all() and np.isfinite(stats.var).all():
        return
    step, index, *_ = np.unravel_index(np.argmax(np.abs(raw_obs)), raw_obs.shape)
    raise EnvError(
        f"{task}: environment {index} returned a too large observation at step {max(step, 1)} "
        f"of the rollout: {np.abs(raw_obs).max():.3g} overflows the running statistics"
    )


def _episode_sums(rewards: np.ndarray, done: np.ndarray, state: Collector, gamma: float):
    """Running sums of each episode in one pass: discounted return, return and length.

    Returns the sums at every step, and those to continue from in the next batch.
    """
    terms = np.stack([rewards, rewards, np.ones_like(rewards)], axis=1)
    initial = np.stack([state.accumulators, state.episode_return, state.episode_length])
    discounts = np.array([[gamma], [1.0], [1.0]])
    sums, final = discounted_returns(terms, done[:, None], initial, discounts)
    return sums.swapaxes(0, 1), final
