"""Comparing trees of arrays, observations and generations bit for bit."""

import jax
import numpy as np

from capo.storage.tensors import named_leaves


def same(a, b):
    """Whether two trees hold equal arrays."""
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def observation_leaves(obs):
    """The arrays of a nested observation, dictionaries by sorted key."""
    if isinstance(obs, dict):
        return [leaf for key in sorted(obs) for leaf in observation_leaves(obs[key])]
    if isinstance(obs, tuple):
        return [leaf for part in obs for leaf in observation_leaves(part)]
    return [obs]


def assert_same_generation(first, second):
    """Equal networks, optimizer moments, statistics, environments and recent episodes."""
    ours, theirs = (
        named_leaves((s.state, s.collector._replace(played=()))) for s in (first, second)
    )
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert first.recent == second.recent
    assert first.number == second.number
