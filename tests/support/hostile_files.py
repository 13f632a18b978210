"""Malicious files in place of a model.

`strange` and `broken` do for any file of arrays that is sealed as `capo.storage.tensors` does it;
`dishonest` are models that are whole and rightly sealed, and lie.
"""

import builtins
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capo.model import FORMAT, SCHEMA
from capo.storage import tensors

Content = tuple[str, bytes]
METADATA = "__metadata__"


class Trap:
    """Unpickling this object writes the canary's file."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self):
        return builtins.open, (str(self.canary), "w")


def pack(tree, header):
    """A model file with any content, also such as capo's own writer refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "check_finite", lambda _: None)
        return tensors.pack(tree, header)


def unpack(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Header, without the digest, and arrays of a model file."""
    with tensors.open_tensors(path, FORMAT, SCHEMA) as file:
        arrays = file.read()
        return {name: said for name, said in file.header.items() if name != "sha256"}, arrays


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def join(header: Any, data: bytes = b"") -> bytes:
    """A safetensors file of header and data; a header of bytes is used unchanged."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def strange(canary: Path) -> Iterator[Content]:
    """Files of other formats."""
    trap = pickle.dumps({"policy": Trap(canary)})
    yield "empty", b""
    yield "seven-bytes", b"\0" * 7
    yield "only-zeros", b"\0" * 4096
    yield "pickle", trap
    yield "pickle-protocol-0", pickle.dumps(Trap(canary), protocol=0)
    yield "pickle-in-gzip", gzip.compress(trap)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("data.pkl", "archive/data.pkl", "policy.pth", "../../escape"):
            file.writestr(name, trap)
    yield "zip-of-pickles", archive.getvalue()
    arrays = io.BytesIO()
    np.savez(arrays, policy=np.array([Trap(canary)], dtype=object))
    yield "npz-of-objects", arrays.getvalue()
    array = io.BytesIO()
    np.save(array, np.array([Trap(canary)], dtype=object))
    yield "npy-of-objects", array.getvalue()
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.writestr("policy", b"\0" * 100_000_000)
    yield "zip-bomb", bomb.getvalue()
    yield "python", f"open({str(canary)!r}, 'w')\n".encode()
    yield "yaml", f"!!python/object/apply:builtins.open [{str(canary)!r}, w]\n".encode()


def broken(good: bytes) -> Iterator[Content]:
    """Safetensors files that break or bend the rules of the format."""
    header, data = split(good)
    said, first = header[METADATA], next(name for name in header if name != METADATA)
    text = json.dumps(header).encode()
    four = b"\0" * 4
    yield "header-beyond-the-file", struct.pack("<Q", len(good)) + good[8:]
    yield "header-of-2^63", struct.pack("<Q", 2**63) + good[8:]
    yield "header-of-all-ones", b"\xff" * 8 + good[8:]
    yield "header-of-9-million", join(text + b" " * 9_000_000, data)
    yield "cut-in-the-header", good[: len(good) // 4]
    yield "cut-in-the-data", good[:-1]
    yield "more-data", good + four
    yield "deep-json", join(b'{"a":' * 200_000)
    yield "deep-lists", join(b"[" * 1_000_000)
    yield "no-utf-8", join(b'{"\xff\xfe": 1}')
    yield "metadata-of-numbers", join({METADATA: {**said, "schema": 2}}, data)
    again = json.dumps({first: header[first]}).encode()[1:]
    yield "array-twice", join(text[:-1] + b"," + again, data)
    yield "metadata-twice", join(text.replace(b'"format"', b'"format": "x", "format"', 1), data)
    many = {f"a{i}": entry([0], 0, 0) for i in range(10_000)}
    yield "ten-thousand-arrays", join({METADATA: said, **many})
    pair = {"a": entry([1], 0, 4), "b": entry([1], 0, 4)}
    yield "overlapping", join({METADATA: said, **pair}, four)
    yield "hole", join({METADATA: said, "a": entry([1], 4, 8)}, 2 * four)
    yield "backwards", join({METADATA: said, "a": entry([1], 4, 0)}, four)
    yield "negative-offset", join({METADATA: said, "a": entry([1], -4, 0)}, four)
    yield "beyond-the-end", join({METADATA: said, "a": entry([2**28], 0, 2**30)}, four)
    yield "product-overflows", join({METADATA: said, "a": entry([2**33, 2**33], 0, 4)}, four)
    yield "zero-times-2^62", join({METADATA: said, "a": entry([0, 2**62], 0, 0)})
    yield "hundred-axes", join({METADATA: said, "a": entry([1] * 100, 0, 4)}, four)
    for dtype, size in DTYPES.items():
        claimed = entry([1], 0, size, dtype)
        yield f"array-of-{dtype}", join({METADATA: said, "a": claimed}, b"\0" * size)
    for index, name in enumerate(NAMES):
        named = {METADATA: said, name: header[first]}
        named |= {k: v for k, v in header.items() if k not in (METADATA, first)}
        yield f"name-{index}", join(named, data)
    yield "no-arrays", join({METADATA: said})
    yield "no-metadata", join({k: v for k, v in header.items() if k != METADATA}, data)
    yield "wrong-digest", join({**header, METADATA: {**said, "sha256": "0" * 64}}, data)
    unsealed = {k: v for k, v in said.items() if k != "sha256"}
    yield "no-digest", join({**header, METADATA: unsealed}, data)
    for index, schema in enumerate(("0", "-1", "99", "2.0", "", "x\n" * 1000, "²", "\x1b[2J")):
        other = {**said, "schema": schema}
        yield f"schema-{index}", join({**header, METADATA: other}, data)


DTYPES = {"O": 4, "BF16": 2, "F8_E4M3": 1, "C64": 8, "S1000000000": 4, "object": 8}
"""Data types that capo does not use, and their sizes in bytes."""
NAMES = ("../../etc/passwd", "/etc/passwd", "a\0b", "\x1b[2J", "x" * 100_000)


def resealed(good: Path, arrays: dict[str, np.ndarray] | None = None, **header: Any) -> bytes:
    """A model with some arrays and header entries replaced, and a valid digest."""
    said, found = unpack(good)
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in header.items()}
    return pack({**found, **(arrays or {})}, {**said, **texts})


def dishonest(good: Path, module: str) -> Iterator[Content]:
    """Models with a valid digest; importing `module` would write the canary's file."""
    said, arrays = unpack(good)
    config = json.loads(said["config"])

    def claiming(**changes: Any) -> bytes:
        return resealed(good, config={**config, **changes})

    yield "module", claiming(env_id=f"{module}:CartPole-v1")
    yield "module-twice", claiming(env_id=f"os:{module}:CartPole-v1")
    yield "unknown-task", claiming(env_id="Nothing-v99")
    yield "another-task", claiming(env_id="Pendulum-v1")
    yield "long-task", claiming(env_id="x-v1" * 1_000_000)
    yield "task-that-clears-the-screen", claiming(env_id="\x1b[2J\x07")
    yield "task-is-a-path", claiming(env_id="../../etc/passwd")
    yield "huge-hidden", claiming(hidden=[10**9, 10**9])
    yield "larger-hidden", claiming(hidden=[2**40, 2**40])
    yield "largest-hidden", claiming(hidden=[10**300])
    yield "deep-hidden", claiming(hidden=[1] * 1_000_000)
    yield "negative-hidden", claiming(hidden=[-4])
    yield "huge-stack", claiming(frame_stack=10**6)
    yield "huge-batch", claiming(num_envs=999_983, num_steps=999_979, minibatches=999_961)
    yield "endless-batch", claiming(num_envs=10**15 + 37, num_steps=10**15 + 91)
    for index, (key, value) in enumerate(WRONG_TYPES):
        yield f"type-{index}-{key}", claiming(**{key: value})
    yield "unknown-keys", claiming(**{f"x{i}": i for i in range(10_000)})
    for index, text in enumerate(WRONG_JSON):
        yield f"config-json-{index}", resealed(good, config=text)
        yield f"space-json-{index}", resealed(good, observation_space=text)
    yield "config-key-twice", resealed(good, config=said["config"][:-1] + ', "seed": 2}')
    for index, space in enumerate(WRONG_SPACES):
        yield f"observes-{index}", resealed(good, observation_space=space)
        yield f"acts-{index}", resealed(good, action_space=space)
    first = next(iter(arrays))
    for value in (np.nan, np.inf):
        filled = {name: np.full_like(array, value) for name, array in arrays.items()}
        yield f"all-{value}", resealed(good, filled)
    for dtype in (np.float16, np.int8, np.float64, bool):
        cast = {name: array.astype(dtype) for name, array in arrays.items() if "stats" not in name}
        if dtype is not np.float64:  # Networks may be in double precision.
            yield f"weights-of-{np.dtype(dtype).name}", resealed(good, cast)
    yield "one-axis-more", resealed(good, {first: arrays[first][None]})
    yield "an-array-more", resealed(good, {"policy.net.weights.9": np.zeros(1, np.float32)})
    yield "negative-variance", resealed(good, {"obs_stats.var": -arrays["obs_stats.var"]})


WRONG_TYPES = [
    ("seed", True), ("seed", "1"), ("seed", 1.5), ("seed", -1), ("seed", 2**80), ("gamma", "0.9"),
    ("gamma", None), ("gamma", 10**400), ("gamma", 2.0), ("hidden", "64"), ("hidden", [[4]]),
    ("hidden", {"0": 4}), ("hidden", [True]), ("network", "rnn"), ("network", ["mlp"]),
    ("normalize_obs", 1), ("env_id", 7), ("env_id", ""), ("algo", ["ppo"]), ("warmup_floor", "low"),
]  # fmt: skip
WRONG_JSON = [
    "", "null", "[]", "7", '"text"', "{", "{}", "NaN", '{"type": NaN}', "[" * 100_000,
    '{"a":' * 100_000, "[" + "[]," * 2_000_000 + "[]]", "1" * 5_000, '{"\\ud800": 1}',
]  # fmt: skip


def box(**changes: Any) -> dict[str, Any]:
    return {"type": "Box", "shape": [4], "dtype": "float32", "low": -1.0, "high": 1.0, **changes}


def nested(depth: int) -> dict[str, Any]:
    space: dict[str, Any] = {"type": "Discrete", "n": 2, "start": 0}
    for _ in range(depth):
        space = {"type": "Tuple", "spaces": [space]}
    return space


BIT = {"type": "Discrete", "n": 2, "start": 0}
WRONG_SPACES: list[Any] = [
    {"type": "Discrete", "n": 10**12, "start": 0},
    {"type": "Discrete", "n": 10**30, "start": 0},
    {"type": "Discrete", "n": 0, "start": 0},
    {"type": "Discrete", "n": "2", "start": 0},
    {"type": "Discrete", "n": 2, "start": 10**30},
    {"type": "Discrete"},
    {"type": "MultiDiscrete", "nvec": [10**9] * 1000, "start": [0] * 1000},
    {"type": "MultiDiscrete", "nvec": [2, [3]], "start": [0, 0]},
    {"type": "MultiDiscrete", "nvec": [2, -3], "start": [0, 0]},
    {"type": "MultiDiscrete", "nvec": ["2"], "start": [0]},
    {"type": "MultiDiscrete", "nvec": 2, "start": {}},
    {"type": "MultiBinary", "n": 10**15},
    {"type": "MultiBinary", "n": [10**6] * 3},
    {"type": "MultiBinary", "n": -1},
    {"type": "Graph", "n": 1},
    {"type": "Text", "max_length": 10**9},
    {"type": ["Box"]},
    {"type": "Dict", "spaces": []},
    {"type": "Dict", "spaces": {"a": BIT}},
    {"type": "Dict", "spaces": [["a", BIT], ["a", BIT]]},
    {"type": "Dict", "spaces": [[1, BIT]]},
    {"type": "Dict", "spaces": [["a", BIT, 3]]},
    {"type": "Tuple", "spaces": [BIT] * 50_000},
    {"type": "Tuple", "spaces": 7},
    nested(100),
    nested(300),
    box(shape=[10**6, 10**6]),
    box(shape=[10**9]),
    box(shape=[1] * 100),
    box(shape=[-4]),
    box(shape=[4.0]),
    box(shape=[0]),
    box(shape=None),
    box(shape=[512, 512, 16], dtype="uint8", low=0, high=255),
    box(low=[0.0] * 1_000_000),
    box(low="0"),
    box(low=[0, 0, 0, "0"]),
    box(low=[[0, 0, 0, 0]]),
    box(low=True),
    box(low=2.0, high=1.0),
    box(low=10**400),
    box(low=1e300, high=1e301),
    box(dtype="O"),
    box(dtype="S1000000000"),
    box(dtype="float32,float32"),
    box(dtype="datetime64"),
    box(dtype=["float32"]),
    box(dtype="uint8", low=None, high=None),
]


def placed(folder: Path, good: Path) -> Iterator[tuple[str, Path]]:
    """Paths that are no regular file: folders, pipes, links; and a sparse file."""
    (folder / "folder").mkdir()
    yield "folder", folder / "folder"
    (folder / "folder-in-folder" / "model.safetensors").mkdir(parents=True)
    yield "folder-in-folder", folder / "folder-in-folder"
    os.mkfifo(folder / "pipe")
    yield "pipe", folder / "pipe"
    (folder / "run-with-a-pipe").mkdir()
    os.mkfifo(folder / "run-with-a-pipe" / "model.safetensors")
    yield "run-with-a-pipe", folder / "run-with-a-pipe"
    for name, target in (("passwd", "/etc/passwd"), ("zeros", "/dev/zero"), ("loop", "loop")):
        (folder / name).symlink_to(target)
        yield name, folder / name
    header, _ = split(good.read_bytes())
    sparse = folder / "sparse"
    sparse.write_bytes(join({METADATA: header[METADATA], "a": entry([2**31], 0, 2**33)}))
    with sparse.open("r+b") as file:
        file.truncate(sparse.stat().st_size + 2**33)
    yield "sparse", sparse
