"""The TensorBoard event file, read back record by record."""

import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from capo.runs.tensorboard import Events

ROW = {
    "generation": 0, "steps": 4096, "seconds": 2.0, "return": 10.5, "policy_loss": -0.1, "kl": 0.01,
    "length": None, "collect_seconds": 1.5, "fisher/alignment": 0.25, "consensus/rho_waste": 0.9,
}  # fmt: skip


def scalars(file):
    content, at = file.read_bytes(), 0
    while at < len(content):
        (size,) = struct.unpack("<Q", content[at : at + 8])
        event = Event.FromString(content[at + 12 : at + 12 + size])
        yield from ((v.tag, event.step, v.simple_value) for v in event.summary.value)
        at += size + 16


def test_scalars_have_the_usual_names(tmp_path):
    events = Events(tmp_path)
    events.log(ROW)
    events.close("finished")
    (file,) = tmp_path.iterdir()
    found = {tag: (step, value) for tag, step, value in scalars(file)}
    expected = {
        "charts/episodic_return": 10.5, "charts/SPS": 2048.0, "losses/policy_loss": -0.1,
        "update/kl": 0.01, "time/collect_seconds": 1.5, "fisher/alignment": 0.25,
        "consensus/rho_waste": 0.9,
    }  # fmt: skip
    assert found.keys() == expected.keys()
    for tag, value in expected.items():
        assert found[tag] == (4096, pytest.approx(value, rel=1e-6))
