"""Arrays by name in one safetensors file, sealed by a digest. Reading one runs no code."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from capo.config import UsageError

MOST_HEADER = 2**24
"""Bytes; the header of a model with images for observations has some hundred thousand."""
Tree = TypeVar("Tree")


def named(tree: Any) -> dict[str, Any]:
    """Leaves by dotted path, in the order of `jax.tree.flatten`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def pack(tree: Any, header: dict[str, str]) -> bytes:
    """The file of a tree of arrays and a header of words, with the digest of both in the header."""
    arrays = {name: np.asarray(x, order="C") for name, x in named(tree).items()}
    return save(arrays, metadata={**header, "sha256": _digest(arrays, header)})


def unpack(
    path: Path, form: str, newest: int, sealed: int = 1
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Header and arrays of a file that `pack` wrote; anything else is refused with one line.

    `newest` is the last schema of this form that is known, `sealed` the first that has a digest.
    """
    header, arrays = _read(path)
    if header.get("format") != form:
        raise UsageError(f"{path} is not a {form.replace('-', ' ')}: it has no {form} header")
    check_schema(path, header.get("schema"), newest)
    digest = header.pop("sha256", None)
    if int(header["schema"]) >= sealed and digest != _digest(arrays, header):
        raise UsageError(f"{path} is damaged or was edited: its digest does not fit its content")
    return header, arrays


def check_schema(path: Path, found: str | None, newest: int) -> None:
    """Refuses a schema that this version does not know."""
    if found not in {str(n) for n in range(1, newest + 1)}:
        raise UsageError(
            f"{path} has schema {found}, this version of capo reads up to {newest}; update capo"
        )


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        if size > MOST_HEADER:
            raise ValueError(f"its header claims {size} bytes")
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return file.metadata() or {}, arrays
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is not a readable safetensors file: {error}") from error


def _digest(arrays: dict[str, np.ndarray], header: dict[str, str]) -> str:
    """SHA-256 of the header and of every array's name, type, shape and bytes."""
    told = hashlib.sha256(json.dumps(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        told.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        told.update(np.ascontiguousarray(array).data)
    return told.hexdigest()


def fill(like: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """The tree with arrays for leaves; `like` has the shapes and types that they must have."""
    wanted = named(like)
    if wrong := sorted(set(wanted) ^ set(arrays)):
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"arrays missing or unknown: {', '.join(wrong[:3])}{more}")
    for name, leaf in wanted.items():
        found = arrays[name]
        if tuple(leaf.shape) != found.shape or leaf.dtype != found.dtype:
            raise ValueError(
                f"{name} is {found.dtype}{list(found.shape)}, "
                f"expected {leaf.dtype}{list(leaf.shape)}"
            )
        if not np.isfinite(found).all():
            raise ValueError(f"{name} holds what is not a finite number")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])
