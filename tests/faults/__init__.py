"""Every fault that is injected, how often, and what must hold. A trial is called as

trial(folder, rng, times): injects the fault about `times` times and returns how often it was;
raises AssertionError if something did not hold, NotHereError if this machine cannot do it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from faults.bits import damage
from faults.disks import full_disk, read_only
from faults.environments import broken, hangs, worker_killed
from faults.kills import sigkill
from faults.numbers import injected
from faults.running import NotHereError
from faults.saving import failpoints
from faults.signals import interrupts
from faults.soaking import soak

__all__ = ["FAULTS", "Fault", "NotHereError"]


class Fault(NamedTuple):
    """A row of the table."""

    what: str
    times: int
    batch: int
    """Times in one call of the trial."""
    must: str
    trial: Callable[[Path, np.random.Generator, int], int]


STOPS = "stops with the environment named, no process left, the last checkpoint loads"
KEEPS = (
    "the incumbent stays and it is counted, three in a row stop the run; "
    "every checkpoint is finite and loads, the newest is the last good generation's"
)
FAULTS = {
    "soak": Fault(
        "2,000 generations on end", 3, 3,
        "memory grows by less than 1 MB in 100 generations after the first 100; "
        "nothing is compiled after generation 2", soak,
    ),
    "sigkill": Fault(
        "SIGKILL at a random moment, then the same command again", 200, 10,
        "every run goes on, and ends bit for bit as the uninterrupted one", sigkill,
    ),
    "failpoints": Fault(
        "SIGKILL before, within or after each call to the system while saving", 120, 60,
        "the old or the new checkpoint loads, never neither; nothing partial stays", failpoints,
    ),
    "interrupts": Fault(
        "SIGINT or SIGTERM", 50, 5,
        "saved after the generation, exit code 130 or 143, no process left; goes on, and ends "
        "bit for bit as the uninterrupted run; a second one stops at once", interrupts,
    ),
    "full-disk": Fault(
        "disk full", 30, 5,
        "one line that names the path, exit code 1, the checkpoint before loads; goes on once "
        "there is room, and ends bit for bit as the undisturbed run", full_disk,
    ),
    "read-only": Fault(
        "folder that cannot be written to", 10, 5,
        "found before training, exit code 2, nothing written", read_only,
    ),
    "damage": Fault(
        "bit flipped in a checkpoint or a model, or the file cut", 500, 250,
        "refused, the file named; `--resume auto` takes the checkpoint before and says so", damage,
    ),
    "env-raises": Fault("environment raises", 20, 5, STOPS, broken("Raises")),
    "env-nan": Fault("environment returns NaN", 20, 5, STOPS, broken("NaN")),
    "env-shape": Fault("environment returns a wrong shape", 20, 5, STOPS, broken("Shape")),
    "env-hangs": Fault(
        "environment hangs, in Python or in C with the interpreter's lock", 20, 4,
        f"{STOPS}, within the time-out", hangs,
    ),
    "worker-killed": Fault(
        "worker process of an environment killed", 20, 5, STOPS, worker_killed
    ),
    "nan-loss": Fault("NaN in the loss", 25, 5, KEEPS, injected("loss")),
    "nan-gradient": Fault("NaN in a gradient", 25, 5, KEEPS, injected("gradient")),
    "nan-expert": Fault(
        "NaN in one expert", 25, 5,
        "the run goes on with the others and counts it; every checkpoint is finite and loads",
        injected("expert"),
    ),
    "nan-experts": Fault("NaN in all experts", 25, 5, KEEPS, injected("experts")),
}  # fmt: skip
