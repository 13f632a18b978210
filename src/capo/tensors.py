"""Arrays by name in one safetensors file, sealed by a digest. Reading one runs no code."""

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

from capo.config import UsageError
from capo.files import parse_json
from capo.format import one_line

MOST_HEADER = 2**23
"""Bytes; the header of a model has a few thousand."""
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
"""The types of arrays that are read, by their names in the file."""
BROKEN = (SafetensorError, OSError)
EDITED = (
    ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RecursionError,
    MemoryError,
)  # fmt: skip
"""What the contents of a file can bring about in those who read it."""
Tree = TypeVar("Tree")


class FileError(UsageError):
    """A file that is refused; the text names it."""


def named(tree: Any) -> dict[str, Any]:
    """Leaves by dotted path, in the order of `jax.tree.flatten`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def pack(tree: Any, header: dict[str, str]) -> bytes:
    """The file of a tree of arrays and a header of words, with the digest of both in the header."""
    arrays = {name: np.asarray(x, order="C") for name, x in named(tree).items()}
    check_finite(arrays)
    content = save(arrays, metadata={**header, "sha256": _digest(arrays, header)})
    if (size := int.from_bytes(content[:8], "little")) > MOST_HEADER:
        raise UsageError(
            f"a file with a header of {size} bytes could not be read again; "
            f"{MOST_HEADER} is the most"
        )
    return content


class Opened:
    """A file whose header is read and whose arrays are not yet."""

    def __init__(self, file: Any, sealed: bool):
        self._file, self._sealed = file, sealed
        self.header: dict[str, str] = file.metadata() or {}
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        self.shapes = {name: _shape(name, part) for name, part in slices.items()}

    def read(self) -> dict[str, np.ndarray]:
        """All arrays, if their digest fits."""
        arrays = {name: self._file.get_tensor(name) for name in self.shapes}
        header = {name: said for name, said in self.header.items() if name != "sha256"}
        if self._sealed and self.header.get("sha256") != _digest(arrays, header):
            raise ValueError("its digest does not fit its content")
        return arrays


@contextlib.contextmanager
def opened(path: Path, form: str, newest: int, sealed: int = 1) -> Iterator[Opened]:
    """The header of a file that `pack` wrote, so that `check_fit` can come before the arrays.

    Anything else, and any trouble with what the header says, is refused with one line. `newest` is
    the last schema of this form that is known, `sealed` the first that has a digest.
    """
    if not path.is_file():
        raise FileError(f"there is no file {path}")
    with refusing(path), _checked(path) as file:
        header = file.metadata() or {}
        if header.get("format") != form:
            raise FileError(f"{path} is not a {form.replace('-', ' ')}: it has no {form} header")
        check_schema(path, header.get("schema"), newest)
        yield Opened(file, int(header["schema"]) >= sealed)


def unpack(
    path: Path, form: str, newest: int, sealed: int = 1
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Header and arrays at once, for files of one's own; see `opened`."""
    with opened(path, form, newest, sealed) as file:
        arrays = file.read()
        return {name: said for name, said in file.header.items() if name != "sha256"}, arrays


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Whatever the contents of a file bring about becomes one line that names it."""
    try:
        yield
    except FileError:
        raise
    except BROKEN as error:
        said = one_line(str(error))
        raise FileError(f"{path} is not a readable safetensors file: {said}") from error
    except EDITED as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        said = one_line(said or type(error).__name__)
        raise FileError(f"{path} is damaged or was edited: {said}") from error


def check_schema(path: Path, found: Any, newest: int) -> None:
    """Refuses a schema that this version does not know."""
    if found not in [str(n) for n in range(1, newest + 1)]:
        raise FileError(
            f"{path} has schema {one_line(str(found), 40)}, this version of capo reads up to "
            f"{newest}; update capo"
        )


@contextlib.contextmanager
def _checked(path: Path) -> Iterator[Any]:
    """The library's view of the file, after what it does not check itself."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MOST_HEADER:
            raise SafetensorError(f"its header claims {size} bytes")
        content = file.read(size)
    with safe_open(path, framework="numpy") as file:
        parse_json(content.decode())
        yield file


def _shape(name: str, part: Any) -> jax.ShapeDtypeStruct:
    if part.get_dtype() not in DTYPES:
        raise ValueError(f"{name} is of the type {part.get_dtype()}")
    return jax.ShapeDtypeStruct(tuple(part.get_shape()), np.dtype(DTYPES[part.get_dtype()]))


def _digest(arrays: dict[str, np.ndarray], header: dict[str, str]) -> str:
    """SHA-256 of the header and of every array's name, type, shape and bytes."""
    told = hashlib.sha256(json.dumps(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        told.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        told.update(np.ascontiguousarray(array).data)
    return told.hexdigest()


def check_fit(like: Any, found: Mapping[str, Any]) -> None:
    """Refuses arrays, or only their shapes, that are not those of the leaves of `like`."""
    wanted = named(like)
    if wrong := sorted(set(wanted) ^ set(found)):
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"arrays missing or unknown: {', '.join(wrong[:3])}{more}")
    for name, leaf in wanted.items():
        here = found[name]
        if tuple(leaf.shape) != tuple(here.shape) or leaf.dtype != here.dtype:
            raise ValueError(
                f"{name} is {here.dtype}{list(here.shape)}, expected {leaf.dtype}{list(leaf.shape)}"
            )


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses what no file may hold."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds what is not a finite number")


def fill(like: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """The tree with arrays for leaves; `like` has the shapes and types that they must have."""
    check_fit(like, arrays)
    check_finite(arrays)
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in named(like)])
