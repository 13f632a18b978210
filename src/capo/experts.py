"""K replicates on one batch: mapped within a device, sharded over the devices there are."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray

from capo.config import Config
from capo.envs import available_cores
from capo.networks import Policy
from capo.ppo import Expert, Samples, Share, standardize

UpdateRule = Callable[
    [Policy, optax.OptState, Samples, Share, Float[Array, ""], Config],
    Expert,
]


def _most_devices() -> int:
    """Devices for experts: all of an accelerator's, no more of the CPU than it has cores."""
    count = jax.device_count()
    return min(count, available_cores()) if jax.default_backend() == "cpu" else count


def _spread(width: int, available: int) -> int:
    """The largest number of devices, at most `available`, that `width` experts fill evenly."""
    return max(n for n in range(1, available + 1) if width % n == 0)


def permutations(key: PRNGKeyArray, count: int, n: int) -> Int[Array, "count n"]:
    """`count` random orders of 0 … n − 1.

    Sorts random bits that carry the position in their low end, which takes a fraction of the time
    of an argsort. With fewer than 16 random bits left ties would show, so large n is argsorted.
    """
    bits = jax.random.bits(key, (count, n), jnp.uint32)
    low = max(1, (n - 1).bit_length())
    if low > 16:
        return jnp.argsort(bits, axis=-1).astype(jnp.int32)
    mask = jnp.uint32((1 << low) - 1)
    tagged = (bits & ~mask) | jnp.arange(n, dtype=jnp.uint32)
    return (jnp.sort(tagged, axis=-1) & mask).astype(jnp.int32)


def gae_lambdas(lam: float, width: int) -> Float[Array, " experts"]:
    """λ for each expert: horizons 1/(1 − λ) spaced evenly in the logarithm from half to double."""
    spread = jnp.linspace(1.0, -1.0, width) if width > 1 else jnp.zeros(1)
    return 1 - (1 - lam) * 2.0**spread


def shares(
    key: PRNGKeyArray, advantages: Float[Array, "experts n"], depth: int, config: Config
) -> Share:
    """Each expert's order of the samples, advantages and weights, stacked over experts.

    `bootstrap` draws Dirichlet(1, …, 1) weights of mean 1. With `subset` an expert sees ⌈K/2⌉ of K
    random blocks of the batch, so that every sample is in equally many shares, and goes through
    them more often: as many steps, of the same size, as the others take. TRPO has no order of the
    samples to differ in, so its experts get the bootstrap whenever there are several.
    """
    width, n = advantages.shape
    if config.advantage_norm == "batch":
        advantages = jax.vmap(standardize)(advantages)
    keys = jax.vmap(lambda k: jax.random.fold_in(key, k))(jnp.arange(width))
    order = jax.vmap(lambda k: permutations(k, depth, n))(keys)
    if config.diversity == "subset":
        blocks = permutations(jax.random.fold_in(key, width), 1, n)[0].reshape(width, -1)
        taken = (jnp.arange(width)[:, None] + jnp.arange(math.ceil(width / 2))) % width
        members = blocks[taken].reshape(width, -1)
        size = members.shape[1]
        repeats = math.ceil(depth * n / size)
        within = jax.vmap(lambda k: permutations(k, repeats, size))(keys)
        order = jnp.take_along_axis(members, within.reshape(width, -1), axis=1)[:, : depth * n]
    indices = order.reshape(width, depth, config.minibatches, -1)
    weights = jnp.ones((width, n))
    if width > 1 and (config.diversity == "bootstrap" or config.base_optimizer == "trpo"):
        draws = jax.vmap(lambda k: jax.random.exponential(jax.random.fold_in(k, 1), (n,)))(keys)
        weights = draws / jnp.mean(draws, axis=1, keepdims=True)
    return Share(indices, advantages, weights)


def train_experts(
    update: UpdateRule,
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    learning_rate: Float[Array, ""],
    config: Config,
    devices: int | None = None,
) -> Expert:
    """Trains one expert for each row of `share` from the same incumbent; results are stacked.

    `devices` is how many to spread over (default: all that divide the experts evenly).
    """

    def block(policy, opt_state, samples, share, learning_rate):
        run = jax.vmap(lambda s: update(policy, opt_state, samples, s, learning_rate, config))
        return run(share)

    width = share.weights.shape[0]
    count = devices or _spread(width, _most_devices())
    if count == 1:
        return block(policy, opt_state, samples, share, learning_rate)
    mesh = jax.make_mesh((count,), ("experts",), axis_types=(AxisType.Auto,))
    whole, split = PartitionSpec(), PartitionSpec("experts")
    sharded = jax.shard_map(
        block,
        mesh=mesh,
        in_specs=(whole, whole, whole, split, whole),
        out_specs=split,
        check_vma=False,
    )
    return sharded(policy, opt_state, samples, share, learning_rate)
