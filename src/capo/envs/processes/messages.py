"""Messages and shared arrays between a run and its worker processes.

A message is a line of JSON on a socket, and every message gets one reply. Observations, actions and
rewards are not part of it: they are in anonymous memory that both processes map. The system frees
that memory when both have exited, however they exit.
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
POLL_SECONDS = 500e-6 if hasattr(os, "sched_yield") else 0.0
"""How long `recv` polls before it blocks; the learner chooses its next actions in less."""
MAX_ITEMSIZE = 16
"""Bytes of the largest numeric type of NumPy."""
CACHE_LINE = 64
"""Arrays start at multiples of this, so that no two share a line of the processor's cache."""
DEFAULT_DTYPE = np.dtype(np.float64)

Shape = tuple[int, ...]


def send(channel: socket.socket, message: Any) -> None:
    """Sends a message."""
    channel.sendall(json.dumps(message).encode() + b"\n")


def recv(channel: socket.socket) -> bytes:
    """Receives a message as its line of JSON; empty if the other process closed the connection."""
    try:
        line = _recv_chunk(channel)
        while line and not line.endswith(b"\n"):
            more = channel.recv(CHUNK)
            line = line + more if more else b""
    except ConnectionError:
        return b""
    return line


def _recv_chunk(channel: socket.socket) -> bytes:
    """Polls the socket, then blocks: waking from a blocking call takes longer than a short poll.

    Yields the core to other processes between two polls.
    """
    deadline = time.perf_counter() + POLL_SECONDS
    while time.perf_counter() < deadline:
        try:
            return channel.recv(CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
    return channel.recv(CHUNK)


def create_memory() -> int:
    """Descriptor of an anonymous file: in memory where the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("capo")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedArrays:
    """Actions and results of `rows` environments, in shared memory.

    `obs_shapes` are the shapes of the parts of an observation. Observations and actions may have
    any numeric type and may change it: each array has room for the largest.
    """

    def __init__(self, file: int, rows: int, action_shape: Shape, obs_shapes: list[Shape]):
        shapes = [(rows, *shape) for shape in (action_shape, *obs_shapes, *obs_shapes)]
        arrays = (MAX_ITEMSIZE * math.prod(shape) for shape in shapes)
        sizes = [CACHE_LINE, 8 * rows, rows, rows, 8 * rows, *arrays]
        ends = np.cumsum([-(-size // CACHE_LINE) * CACHE_LINE for size in sizes]).tolist()
        os.ftruncate(file, ends[-1])
        self._memory = mmap.mmap(file, ends[-1])
        self._starts, self._sizes = [0, *ends], sizes
        self.active = self._array(0, np.dtype(np.int64), (1,))
        """`GymnasiumEnv.active` of the worker."""
        self.reward = self._array(1, np.dtype(np.float64), (rows,))
        self.terminated, self.truncated = (self._array(i, np.dtype(bool), (rows,)) for i in (2, 3))
        self.success = self._array(4, np.dtype(np.float64), (rows,))
        self.actions, *self.parts = (
            self._array(5 + i, DEFAULT_DTYPE, shape) for i, shape in enumerate(shapes)
        )
        """`parts` are the parts of `obs`, then the parts of `next_obs`."""

    def _array(self, slot: int, dtype: np.dtype, shape: Shape) -> np.ndarray:
        if dtype.kind not in "biufc" or dtype.itemsize * math.prod(shape) > self._sizes[slot]:
            raise ValueError(f"no room for {dtype} of shape {shape}")
        return np.ndarray(shape, dtype, self._memory, self._starts[slot])

    def retype_actions(self, dtype: np.dtype, shape: Shape) -> None:
        """Changes the type and shape of `actions`."""
        self.actions = self._array(5, dtype, shape)

    def retype_part(self, index: int, dtype: np.dtype) -> None:
        """Changes the type of `parts[index]`."""
        self.parts[index] = self._array(6 + index, dtype, self.parts[index].shape)
