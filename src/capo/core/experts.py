"""Training of K experts on one batch: vmapped within a device, sharded over devices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray

from capo.core.devices import expert_devices
from capo.core.networks import Policy
from capo.core.ppo import Expert, Rates, Samples, Share, standardize
from capo.core.settings import PolicySettings

UpdateRule = Callable[
    [Policy, optax.OptState, Samples, Share, Rates, PolicySettings],
    Expert,
]


def _spread(width: int, available: int) -> int:
    """The largest number of devices, at most `available`, that `width` experts fill evenly."""
    return max(n for n in range(1, available + 1) if width % n == 0)


def permutations(key: PRNGKeyArray, count: int, n: int) -> Int[Array, "count n"]:
    """`count` random orders of 0 … n − 1.

    Sorts random bits whose low bits are the position, which is several times faster than argsort.
    For n above 2¹⁶ fewer than 16 random bits would remain and ties would matter: argsort is used.
    """
    bits = jax.random.bits(key, (count, n), jnp.uint32)
    low = max(1, (n - 1).bit_length())
    if low > 16:
        return jnp.argsort(bits, axis=-1).astype(jnp.int32)
    mask = jnp.uint32((1 << low) - 1)
    tagged = (bits & ~mask) | jnp.arange(n, dtype=jnp.uint32)
    return (jnp.sort(tagged, axis=-1) & mask).astype(jnp.int32)


def shares(
    key: PRNGKeyArray,
    advantages: Float[Array, "experts n"],
    depth: int,
    config: PolicySettings,
    sizes: Float[Array, " batches"] | None = None,
    importance: Float[Array, " n"] | None = None,
) -> Share:
    """Each expert's order of the samples, advantages and weights, stacked over experts.

    `bootstrap` draws Dirichlet(1, …, 1) weights of mean 1. TRPO uses no sample order, so several
    TRPO experts always get the bootstrap.

    With several batches in one axis, their effective `sizes` and the `importance` of each sample
    are factors of the weights. With `batches` expert k sees batch k only, by its order or, for
    TRPO, by its weights; the batch's size counts in the aggregation instead.
    """
    width, n = advantages.shape
    if config.advantage_norm == "batch":
        advantages = jax.vmap(lambda x: standardize(x, config.advantage_floor))(advantages)
    keys = jax.vmap(lambda k: jax.random.fold_in(key, k))(jnp.arange(width))
    alone = config.diversity == "batches"
    order = jax.vmap(lambda k: permutations(k, depth, n // width if alone else n))(keys)
    if alone:
        order += (jnp.arange(width, dtype=jnp.int32) * (n // width))[:, None, None]
    indices = order.reshape(width, depth, config.minibatches, -1)
    weights = jnp.ones((width, n))
    if alone and config.base_optimizer == "trpo":
        weights = width * jnp.repeat(jnp.eye(width), n // width, axis=1)
    elif width > 1 and (config.diversity == "bootstrap" or config.base_optimizer == "trpo"):
        draws = jax.vmap(lambda k: jax.random.exponential(jax.random.fold_in(k, 1), (n,)))(keys)
        weights = draws / jnp.mean(draws, axis=1, keepdims=True)
    if importance is not None and sizes is not None:
        relative = jnp.ones_like(sizes) if alone else sizes / jnp.mean(sizes)
        weights *= importance * jnp.repeat(relative, n // sizes.shape[0])
    return Share(indices, advantages, weights)


def train_experts(
    update: UpdateRule,
    policy: Policy,
    opt_state: optax.OptState,
    samples: Samples,
    share: Share,
    rates: Rates,
    config: PolicySettings,
    devices: int | None = None,
) -> Expert:
    """Trains one expert for each row of `share` from the same incumbent; results are stacked.

    `devices` is the number to shard over (default: the largest that divides the experts evenly).
    """

    def block(policy, opt_state, samples, share, rates, config):
        run = jax.vmap(lambda s: update(policy, opt_state, samples, s, rates, config))
        return run(share)

    width = share.weights.shape[0]
    count = devices or _spread(width, expert_devices())
    if count == 1:
        return block(policy, opt_state, samples, share, rates, config)
    mesh = jax.make_mesh((count,), ("experts",), axis_types=(AxisType.Auto,))
    whole, split = PartitionSpec(), PartitionSpec("experts")
    sharded = jax.shard_map(
        block,
        mesh=mesh,
        in_specs=(whole, whole, whole, split, whole, whole),
        out_specs=split,
        check_vma=False,
    )
    return sharded(policy, opt_state, samples, share, rates, config)
