"""Trees of arrays in safetensors files with a header and a digest. Loading runs no code."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from capo.errors import FileError, NotNamedError, UsageError
from capo.storage.files import parse_json
from capo.storage.text import one_line

MAX_HEADER = 2**23
"""Largest header in bytes; a model's has a few thousand."""
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
"""NumPy types by their safetensors names; arrays of other types are refused."""
READ_ERRORS = (SafetensorError, OSError)
CONTENT_ERRORS = (
    ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RecursionError,
    MemoryError,
)  # fmt: skip
"""Errors that the contents of a file can cause in the code that interprets them."""
Tree = TypeVar("Tree")


def named_leaves(tree: Any) -> dict[str, Any]:
    """Leaves by dotted path, in the order of `jax.tree.flatten`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def pack(tree: Any, header: dict[str, str]) -> bytes:
    """The bytes of a safetensors file: the arrays, the header, and a digest of both."""
    arrays = {name: np.asarray(x, order="C") for name, x in named_leaves(tree).items()}
    check_finite(arrays)
    content = _sorted_metadata(save(arrays, {**header, "sha256": _digest(arrays, header)}))
    if (size := int.from_bytes(content[:8], "little")) > MAX_HEADER:
        raise UsageError(
            f"the file's header would have {size} bytes; at most {MAX_HEADER} can be read again"
        )
    return content


def _sorted_metadata(content: bytes) -> bytes:
    """The file with its metadata in order, so that equal contents have equal bytes.

    `save` writes the metadata in an order that differs from call to call.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays are aligned
    return len(text).to_bytes(8, "little") + text + content[end:]


class TensorFile:
    """An open file: header and shapes are read, arrays are not yet."""

    def __init__(self, file: Any, has_digest: bool):
        self._file, self._has_digest = file, has_digest
        self.header: dict[str, str] = file.metadata() or {}
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        self.shapes = {name: _shape(name, part) for name, part in slices.items()}

    def read(self) -> dict[str, np.ndarray]:
        """All arrays; raises ValueError if they do not match the digest."""
        arrays = {name: self._file.get_tensor(name) for name in self.shapes}
        header = {name: text for name, text in self.header.items() if name != "sha256"}
        if self._has_digest and self.header.get("sha256") != _digest(arrays, header):
            raise ValueError("its digest does not match its content")
        return arrays


@contextlib.contextmanager
def open_tensors(
    path: Path, file_format: str, newest: int, first_digest: int = 1
) -> Iterator[TensorFile]:
    """Opens a file that `pack` wrote, so that `check_shapes` can run before arrays are read.

    Any other file, and any error in the body that its contents cause, raises FileError. `newest` is
    the newest known schema of the format, `first_digest` the first one with a digest.
    """
    if not path.is_file():
        raise FileError(f"there is no file {path}")
    with path.open("rb") as start:
        if start.read(4) == b"PK\x03\x04":
            raise FileError(
                f"{path} is a zip file, as Stable-Baselines3 saves; of those, capo diagnose alone "
                "reads a PPO, with --trust"
            )
    with file_errors(path), _safe_open(path) as file:
        header = file.metadata() or {}
        if header.get("format") != file_format:
            kind = file_format.replace("-", " ")
            raise FileError(f"{path} is not a {kind}: it has no {file_format} header")
        check_schema(path, header.get("schema"), newest)
        yield TensorFile(file, int(header["schema"]) >= first_digest)


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Converts errors that a file's contents cause into FileErrors of one line."""
    try:
        yield
    except FileError:
        raise
    except NotNamedError as error:
        raise NotNamedError(f"{path}: {error}") from error
    except READ_ERRORS as error:
        reason = one_line(str(error))
        raise FileError(f"{path} is not a readable safetensors file: {reason}") from error
    except CONTENT_ERRORS as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        reason = one_line(reason or type(error).__name__)
        raise FileError(f"{path} is damaged or was edited: {reason}") from error


def check_schema(path: Path, said: Any, newest: int) -> None:
    """Raises FileError for a schema that this version does not know."""
    if said not in [str(n) for n in range(1, newest + 1)]:
        raise FileError(
            f"{path} has schema {one_line(str(said), 40)}, this version of capo reads up to "
            f"{newest}; update capo"
        )


@contextlib.contextmanager
def _safe_open(path: Path) -> Iterator[Any]:
    """`safe_open` after two checks that it lacks: the header's size and strict JSON."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER:
            raise SafetensorError(f"its header claims {size} bytes")
        content = file.read(size)
    with safe_open(path, framework="numpy") as file:
        parse_json(content.decode())
        yield file


def _shape(name: str, part: Any) -> jax.ShapeDtypeStruct:
    if part.get_dtype() not in DTYPES:
        raise ValueError(f"{name} has the unsupported type {part.get_dtype()}")
    return jax.ShapeDtypeStruct(tuple(part.get_shape()), np.dtype(DTYPES[part.get_dtype()]))


def _digest(arrays: dict[str, np.ndarray], header: dict[str, str]) -> str:
    """SHA-256 of the header and of every array's name, type, shape and bytes."""
    digest = hashlib.sha256(json.dumps(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def check_shapes(like: Any, arrays: Mapping[str, Any]) -> None:
    """Raises ValueError unless names, shapes and types are those of the leaves of `like`.

    `arrays` may be arrays or `jax.ShapeDtypeStruct`s.
    """
    wanted = named_leaves(like)
    if wrong := sorted(set(wanted) ^ set(arrays)):
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"arrays missing or unknown: {', '.join(wrong[:3])}{more}")
    for name, leaf in wanted.items():
        given = arrays[name]
        if tuple(leaf.shape) != tuple(given.shape) or leaf.dtype != given.dtype:
            kinds = (f"{x.dtype}{list(x.shape)}" for x in (given, leaf))
            raise ValueError(f"{name} is {', expected '.join(kinds)}")


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Raises ValueError for NaN or infinity."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")


def unflatten(like: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """The tree `like` with `arrays` as leaves, after a check of names, shapes, types and values."""
    check_shapes(like, arrays)
    check_finite(arrays)
    return jax.tree.unflatten(
        jax.tree.structure(like), [arrays[name] for name in named_leaves(like)]
    )
