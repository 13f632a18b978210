"""Three probe environments of which the second hangs, dies or raises."""

import os
import signal
import time

import numpy as np

from capo.envs.gymnasium import GymnasiumEnv
from support.probes import Probe

FOREVER = 1000.0
"""Seconds that no test waits."""


class FaultyProbe(Probe):
    """Calls `at_step` at its third step and `at_reset` at every reset."""

    length = 100

    def __init__(self, at_step=None, at_reset=None):
        self.at_step, self.at_reset = at_step, at_reset

    def reset(self, **kwargs):
        found = super().reset(**kwargs)
        return self.at_reset(found) if self.at_reset else found

    def step(self, action):
        found = super().step(action)
        return self.at_step(found) if self.at_step and self.t == 3 else found


def hang(_):
    time.sleep(FOREVER)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def trip(_):
    raise ValueError("tripped")


def three(at_step=None, at_reset=None):
    """Factories of three environments; the second is faulty."""
    return [Probe, lambda: FaultyProbe(at_step, at_reset), Probe]


def vector_of(factories):
    """A vector environment in this process, with one environment from each factory."""
    made = iter(factories)
    return GymnasiumEnv(lambda: next(made)(), len(factories), 0, "probe")


def play(env):
    """Resets three environments and takes five steps."""
    env.reset()
    for _ in range(5):
        env.step(np.zeros(3, int))
