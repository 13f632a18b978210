"""What goes between a run and the processes that step for it: messages, and arrays both can see.

A message is a line of JSON on a socket, and each is answered by one. The numbers are not in it:
they stand in memory that both processes have mapped and that has no name, so that nothing of it is
left however they end.
"""

import json
import math
import mmap
import os
import socket
import tempfile
import time
from typing import Any

import numpy as np

STEP, DONE = b'"step"\n', b'"done"\n'
CHUNK = 2**16
MOMENT = 500e-6 if hasattr(os, "sched_yield") else 0.0
"""Seconds; the learner takes less to choose its next actions."""
WIDEST = 16
"""Bytes of the widest number that NumPy has."""
APART = 64
"""Arrays begin at multiples of this: on a line of the processor's cache of their own."""
USUAL = np.dtype(np.float64)

Shape = tuple[int, ...]


def say(channel: socket.socket, message: Any) -> None:
    """Sends a message."""
    channel.sendall(json.dumps(message).encode() + b"\n")


def hear(channel: socket.socket) -> bytes:
    """The next message, as it came; nothing if the other side is gone."""
    try:
        line = _look(channel)
        while line and not line.endswith(b"\n"):
            more = channel.recv(CHUNK)
            line = line + more if more else b""
    except ConnectionError:
        return b""
    return line


def _look(channel: socket.socket) -> bytes:
    """What comes within a moment, by looking again and again: to be woken up takes longer.

    In between, whoever else has something to do on this core may do it.
    """
    until = time.perf_counter() + MOMENT
    while time.perf_counter() < until:
        try:
            return channel.recv(CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
    return channel.recv(CHUNK)


def new_memory() -> int:
    """The descriptor of a file that has no name: memory, where the system has such a thing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("capo")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Arrays:
    """What `rows` environments are told and what they answer, in memory that is shared.

    `seen` are the shapes of the parts of an observation. Observations and actions may be of any
    type of number, and may change it: there is room for the widest.
    """

    def __init__(self, file: int, rows: int, action: Shape, seen: list[Shape]):
        shapes = [(rows, *shape) for shape in (action, *seen, *seen)]
        sizes = [APART, 8 * rows, rows, rows, *(WIDEST * math.prod(shape) for shape in shapes)]
        ends = np.cumsum([-(-size // APART) * APART for size in sizes]).tolist()
        os.ftruncate(file, ends[-1])
        self._memory = mmap.mmap(file, ends[-1])
        self._starts, self._sizes = [0, *ends], sizes
        self.turn = self._at(0, np.dtype(np.int64), (1,))
        self.reward = self._at(1, np.dtype(np.float64), (rows,))
        self.terminated, self.truncated = (self._at(i, np.dtype(bool), (rows,)) for i in (2, 3))
        self.actions, *self.parts = (self._at(4 + i, USUAL, s) for i, s in enumerate(shapes))
        """`parts` are those of `obs` and then those of `next_obs`."""

    def _at(self, spot: int, dtype: np.dtype, shape: Shape) -> np.ndarray:
        if dtype.kind not in "biufc" or dtype.itemsize * math.prod(shape) > self._sizes[spot]:
            raise ValueError(f"there is no room for {dtype} of shape {shape}")
        return np.ndarray(shape, dtype, self._memory, self._starts[spot])

    def retype_actions(self, dtype: np.dtype, shape: Shape) -> None:
        """Makes `actions` an array of this type and shape."""
        self.actions = self._at(4, dtype, shape)

    def retype(self, part: int, dtype: np.dtype) -> None:
        """Makes one of `parts` an array of this type."""
        self.parts[part] = self._at(5 + part, dtype, self.parts[part].shape)
