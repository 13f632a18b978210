"""Networks of one's own: any Equinox module that maps one observation to outputs."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from capo.errors import NotNamedError, UsageError, name_of
from capo.named import import_by_name

Maker = Callable[..., Any]
"""(key, shape, outputs) ↦ a module that maps an observation of this shape to `outputs` numbers."""


class Makers(NamedTuple):
    """Makers of the two networks; without one for the critic it has the usual network."""

    policy: Maker
    value: Maker | None


_makers: dict[str, Makers] = {}
"""The networks that a person named in this process, by `module:name`."""


class OwnNetwork(eqx.Module):
    """A module for one observation, over any leading axes, on the host and on a device.

    The arrays are the leaves; everything else of the module is part of the type, so that a tree of
    policies has arrays only.
    """

    arrays: Any
    rest: Any = eqx.field(static=True)
    axes: int = eqx.field(static=True)
    """Axes of one observation."""

    def __call__(self, x) -> Any:
        if isinstance(x, np.ndarray):
            return np.asarray(_on_device(self, x))
        return self._mapped(x)

    def _mapped(self, x) -> Any:
        lead = x.shape[: x.ndim - self.axes]
        rows = x.reshape(-1, *x.shape[x.ndim - self.axes :])
        out = jax.vmap(eqx.combine(self.arrays, self.rest))(rows)
        return out.reshape(*lead, -1)


@jax.jit
def _on_device(network: OwnNetwork, x) -> Any:
    return network._mapped(x)


def is_own(name: str) -> bool:
    """Whether a network's name in the configuration is that of a network of one's own."""
    return ":" in name


def register_network(network: Any, value: Any = None) -> str:
    """Lets a configuration name these networks; the name, `module:name`.

    `network` makes the policy's: `network(key, shape, outputs)` returns an Equinox module that maps
    one observation of `shape` to a vector of `outputs` numbers. It may also be such a module, whose
    arrays training begins with. `value` makes the critic's in the same way; without it a function
    makes both, and beside a module the critic has the usual network.
    """
    policy_maker = _maker_of(network)
    shared = None if isinstance(network, eqx.Module) else policy_maker
    owner = type(network) if isinstance(network, eqx.Module) else network
    qualified = getattr(owner, "__qualname__", "network")
    name = f"{getattr(owner, '__module__', '__main__')}:{qualified}"
    _makers[name] = Makers(policy_maker, shared if value is None else _maker_of(value))
    return name


def import_network(name: str) -> None:
    """Imports a network that a person named as `module:function`."""
    _makers[name] = _makers[register_network(import_by_name(name, "network"))]


def _maker_of(given: Any) -> Maker:
    if isinstance(given, eqx.Module):
        return lambda key, shape, outputs: given
    if callable(given) and len(inspect.signature(given).parameters) >= 3:
        return given
    raise UsageError(
        f"{given!r} is not a network: it is an Equinox module, or a function of key, shape and "
        "outputs that makes one"
    )


def makers_of(name: str) -> Makers:
    """The makers of a name; an error if nobody named it in this process."""
    if name not in _makers:
        raise NotNamedError(
            f"the network {name} is named by a file, so it is not imported; if you trust it, give "
            f"it: policy={name.rpartition(':')[2]} in Python, or {name_of('network', name)}"
        )
    return _makers[name]


def make_own(maker: Maker, key: PRNGKeyArray, shape: tuple[int, ...], outputs: int) -> OwnNetwork:
    """The network of a maker, after a look at what it makes of one observation."""
    try:
        module = maker(key, shape, outputs)
        like = jax.ShapeDtypeStruct(shape, jnp.float32)
        made = eqx.filter_eval_shape(module, like)
    except Exception as error:
        raise UsageError(
            f"the network fails on an observation of shape {shape}: {type(error).__name__}: {error}"
        ) from error
    if getattr(made, "shape", None) != (outputs,):
        raise UsageError(
            f"the network makes {getattr(made, 'shape', made)} of an observation of shape {shape}; "
            f"it must make ({outputs},)"
        )
    arrays, rest = eqx.partition(module, eqx.is_inexact_array)
    if odd := [leaf for leaf in jax.tree.leaves(rest) if eqx.is_array(leaf)]:
        raise UsageError(f"the network has an array of {odd[0].dtype}; all must be floating")
    return OwnNetwork(arrays, rest, len(shape))
