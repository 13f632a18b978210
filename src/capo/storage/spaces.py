"""Gymnasium spaces as plain JSON and back, checked before memory is allocated."""

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from capo.errors import UsageError

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
"""Allowed dtypes of a saved Box."""
MAX_NUMBERS = 2**23
"""Most elements of all Boxes together: more than a 1920 × 1080 image has."""
MAX_PARTS, MAX_DEPTH = 1000, 16
"""Limits of nested spaces."""


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """A space as plain JSON: bounds that are all equal are one number, infinite bounds null."""
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
    integer = not np.issubdtype(bounds.dtype, np.floating)
    values = [int(x) if integer else float(x) if np.isfinite(x) else None for x in bounds.flat]
    return values[0] if len(values) == 1 else values


def space_from_json(saved: Any) -> gym.Space:
    """The inverse of `space_to_json`; raises ValueError for anything else."""
    leaves = list(_leaves(saved))
    if len(leaves) > MAX_PARTS:
        raise ValueError(f"a space has {len(leaves)} parts, at most {MAX_PARTS} are allowed")
    size = sum(math.prod(_sizes(leaf, "shape")) for leaf in leaves if leaf["type"] == "Box")
    if size > MAX_NUMBERS:
        raise ValueError(f"a space has {size} numbers, at most {MAX_NUMBERS} are allowed")
    return _space(saved)


def _leaves(saved: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The spaces that contain no others; raises ValueError for a nesting that is no space."""
    if not isinstance(saved, dict) or not isinstance(saved.get("type"), str):
        raise ValueError("a space must be a JSON object with a type")
    if depth > MAX_DEPTH:
        raise ValueError(f"a space is nested more than {MAX_DEPTH} deep")
    if saved["type"] not in ("Dict", "Tuple"):
        yield saved
        return
    parts = saved["spaces"]
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"a {saved['type']} must be a list of spaces")
    if saved["type"] == "Dict":
        keys = [key for key, _ in parts]
        if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
            raise ValueError("the keys of a Dict must be distinct strings")
        parts = [part for _, part in parts]
    for part in parts:
        yield from _leaves(part, depth + 1)


def _space(saved: dict[str, Any]) -> gym.Space:
    match saved["type"]:
        case "Box":
            if saved["dtype"] not in DTYPES:
                raise ValueError(
                    f"a Box has dtype {saved['dtype']!r}; it must be one of {', '.join(DTYPES)}"
                )
            shape, dtype = tuple(_sizes(saved, "shape")), np.dtype(saved["dtype"])
            low, high = (_bounds(saved[side], shape, dtype, side) for side in ("low", "high"))
            return gym.spaces.Box(low, high, dtype=dtype.type)
        case "Discrete":
            n, start = (_integer(saved[key], key) for key in ("n", "start"))
            return gym.spaces.Discrete(n, start=start)
        case "MultiDiscrete":
            nvec, start = (_integer_array(saved[key], key) for key in ("nvec", "start"))
            return gym.spaces.MultiDiscrete(nvec, start=start)
        case "MultiBinary":
            if isinstance(saved["n"], list):
                return gym.spaces.MultiBinary(_sizes(saved, "n"))
            return gym.spaces.MultiBinary(_integer(saved["n"], "n"))
        case "Dict":
            return gym.spaces.Dict([(key, _space(part)) for key, part in saved["spaces"]])
        case "Tuple":
            return gym.spaces.Tuple([_space(part) for part in saved["spaces"]])
    raise ValueError(f"unknown space {saved['type']!r}")


def _bounds(given: Any, shape: tuple[int, ...], dtype: np.dtype, side: str) -> np.ndarray:
    """The bounds as an array of `shape`, from a list of numbers or from one number for all."""
    values = given if isinstance(given, list) else [given]
    if isinstance(given, list) and len(given) != math.prod(shape):
        raise ValueError(f"{side} has {len(given)} numbers for the shape {list(shape)}")
    kinds = (int, float, type(None)) if dtype.kind == "f" else (int, float)
    if not all(type(x) in kinds for x in values):
        raise ValueError(f"{side} must hold numbers only")
    if dtype.kind == "f":
        end = -np.inf if side == "low" else np.inf
        with np.errstate(over="raise"):
            bounds = np.array([end if x is None else x for x in values], np.float64).astype(dtype)
    else:
        # Older files have integers as floats, the largest of them rounded up.
        limits = np.iinfo("uint8" if dtype.kind == "b" else dtype)
        bounds = np.array([min(max(int(x), limits.min), limits.max) for x in values], dtype)
    return bounds.reshape(shape) if isinstance(given, list) else np.full(shape, bounds[0])


def _integer(value: Any, name: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{name} of a space must be an integer")
    return value


def _sizes(saved: dict[str, Any], key: str) -> list[int]:
    """A shape: at most 32 integers from 0 to 2³¹ − 1."""
    shape = saved[key]
    valid = isinstance(shape, list) and len(shape) <= 32
    if not valid or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
        raise ValueError(f"{key} of a space must be a list of sizes")
    return shape


def _integer_array(value: Any, name: str) -> np.ndarray:
    array = np.array(value)
    if array.dtype != np.int64:
        raise ValueError(f"{name} of a space must be a list of integers")
    return array
