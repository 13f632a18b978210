"""Spaces as plain JSON and back. What comes back is checked before anything is made of it."""

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from capo.config import UsageError

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
"""The types of numbers that a Box in a file may have."""
MOST_NUMBERS = 2**23
"""Of all Boxes together: more than a picture of 1920 × 1080 has."""
MOST_PARTS, DEEPEST = 1000, 16
"""Of nested spaces."""


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """A space as plain JSON: equal bounds are one number, infinite ones null."""
    match space:
        case gym.spaces.Box():
            bounds = {side: _bounds_to_json(getattr(space, side)) for side in ("low", "high")}
            return {"type": "Box", "shape": space.shape, "dtype": str(space.dtype), **bounds}
        case gym.spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        case gym.spaces.MultiDiscrete():
            lists = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", **lists}
        case gym.spaces.MultiBinary():
            size = space.shape[0] if len(space.shape) == 1 else list(space.shape)
            return {"type": "MultiBinary", "n": size}
        case gym.spaces.Dict():
            return {"type": "Dict", "spaces": [[k, space_to_json(s)] for k, s in space.items()]}
        case gym.spaces.Tuple():
            return {"type": "Tuple", "spaces": [space_to_json(part) for part in space]}
    raise UsageError(f"the space {space} cannot be saved")


def _bounds_to_json(bounds: np.ndarray) -> Any:
    if bounds.size > 1 and (bounds == bounds.flat[0]).all():
        bounds = bounds.flat[:1]
    whole = not np.issubdtype(bounds.dtype, np.floating)
    found = [int(x) if whole else float(x) if np.isfinite(x) else None for x in bounds.flat]
    return found[0] if len(found) == 1 else found


def space_from_json(saved: Any) -> gym.Space:
    """The inverse of `space_to_json`; anything else is a ValueError, before memory is taken."""
    leaves = list(_leaves(saved))
    if len(leaves) > MOST_PARTS:
        raise ValueError(f"a space has {len(leaves)} parts, at most {MOST_PARTS} are read")
    size = sum(math.prod(_sizes(leaf, "shape")) for leaf in leaves if leaf["type"] == "Box")
    if size > MOST_NUMBERS:
        raise ValueError(f"a space has {size} numbers, at most {MOST_NUMBERS} are read")
    return _space(saved)


def _leaves(saved: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The spaces that are not made of others; what is nested too deep, or no space, is refused."""
    if not isinstance(saved, dict) or not isinstance(saved.get("type"), str):
        raise ValueError("a space is an object with a type")
    if depth > DEEPEST:
        raise ValueError(f"a space is nested more than {DEEPEST} deep")
    if saved["type"] not in ("Dict", "Tuple"):
        yield saved
        return
    parts = saved["spaces"]
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"a {saved['type']} is a list of spaces")
    if saved["type"] == "Dict":
        keys = [key for key, _ in parts]
        if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
            raise ValueError("the keys of a Dict are texts, each one once")
        parts = [part for _, part in parts]
    for part in parts:
        yield from _leaves(part, depth + 1)


def _space(saved: dict[str, Any]) -> gym.Space:
    match saved["type"]:
        case "Box":
            if saved["dtype"] not in DTYPES:
                raise ValueError(f"a Box of {saved['dtype']!r}; it must be of {', '.join(DTYPES)}")
            shape, dtype = tuple(_sizes(saved, "shape")), np.dtype(saved["dtype"])
            low, high = (_bounds(saved[side], shape, dtype, side) for side in ("low", "high"))
            return gym.spaces.Box(low, high, dtype=dtype.type)
        case "Discrete":
            n, start = (_whole(saved[key], key) for key in ("n", "start"))
            return gym.spaces.Discrete(n, start=start)
        case "MultiDiscrete":
            nvec, start = (_whole_array(saved[key], key) for key in ("nvec", "start"))
            return gym.spaces.MultiDiscrete(nvec, start=start)
        case "MultiBinary":
            if isinstance(saved["n"], list):
                return gym.spaces.MultiBinary(_sizes(saved, "n"))
            return gym.spaces.MultiBinary(_whole(saved["n"], "n"))
        case "Dict":
            return gym.spaces.Dict([(key, _space(part)) for key, part in saved["spaces"]])
        case "Tuple":
            return gym.spaces.Tuple([_space(part) for part in saved["spaces"]])
    raise ValueError(f"unknown space {saved['type']!r}")


def _bounds(given: Any, shape: tuple[int, ...], dtype: np.dtype, side: str) -> np.ndarray:
    """An array of the shape: from a list of as many numbers, or from one number for all."""
    values = given if isinstance(given, list) else [given]
    if isinstance(given, list) and len(given) != math.prod(shape):
        raise ValueError(f"{side} has {len(given)} numbers for the shape {list(shape)}")
    kinds = (int, float, type(None)) if dtype.kind == "f" else (int, float)
    if not all(type(x) in kinds for x in values):
        raise ValueError(f"{side} holds what is not a number")
    if dtype.kind == "f":
        end = -np.inf if side == "low" else np.inf
        with np.errstate(over="raise"):
            found = np.array([end if x is None else x for x in values], np.float64).astype(dtype)
    else:
        # Whole numbers were once written as floats, and the largest of them rounded up.
        most = np.iinfo("uint8" if dtype.kind == "b" else dtype)
        found = np.array([min(max(int(x), most.min), most.max) for x in values], dtype)
    return found.reshape(shape) if isinstance(given, list) else np.full(shape, found[0])


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{name} of a space is not a whole number")
    return value


def _sizes(saved: dict[str, Any], key: str) -> list[int]:
    """A shape: at most 32 whole numbers, none of them negative."""
    shape = saved[key]
    good = isinstance(shape, list) and len(shape) <= 32
    if not good or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
        raise ValueError(f"{key} of a space is not a list of sizes")
    return shape


def _whole_array(value: Any, name: str) -> np.ndarray:
    found = np.array(value)
    if found.dtype != np.int64:
        raise ValueError(f"{name} of a space is not a list of whole numbers")
    return found
