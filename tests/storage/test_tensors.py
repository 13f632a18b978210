"""The bytes of a file of arrays."""

import numpy as np
from safetensors import safe_open

from capo.storage.tensors import pack

TREE = {"wide": np.arange(6, dtype=np.float64), "flags": np.array([True, False]), "one": np.ones(3)}
NAMES = ("format", "schema", "config", "beta", "alpha")
HEADER = {name: f"“{name}” – {number}" for number, name in enumerate(NAMES)}


def test_equal_contents_have_equal_bytes(tmp_path):
    """Twenty files would differ in the order of six names, which `save` leaves to chance."""
    files = {pack(TREE, HEADER) for _ in range(20)}
    assert len(files) == 1
    (tmp_path / "file").write_bytes(files.pop())
    with safe_open(tmp_path / "file", "np") as found:
        assert {name: text for name, text in found.metadata().items() if name in HEADER} == HEADER
        for name, array in TREE.items():
            np.testing.assert_array_equal(found.get_tensor(name), array)
