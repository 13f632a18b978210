"""The faults that are injected, how often, and the guarantee. A trial is called as

trial(folder, rng, times): injects the fault about `times` times and returns how often it was;
raises AssertionError if the guarantee is broken, NotHereError if this machine cannot do it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.faults.bits import damage
from support.faults.disks import full_disk, read_only
from support.faults.environments import broken, hangs, worker_killed
from support.faults.kills import sigkill
from support.faults.numbers import injected
from support.faults.running import NotHereError
from support.faults.saving import failpoints
from support.faults.signals import interrupts
from support.faults.soaking import soak

__all__ = ["FAULTS", "Fault", "NotHereError"]


class Fault(NamedTuple):
    """A row of the table."""

    what: str
    times: int
    batch: int
    """Injections in one trial."""
    must: str
    trial: Callable[[Path, np.random.Generator, int], int]


STOPS = "the run stops and names the environment; no process is left; the last checkpoint loads"
KEEPS = (
    "the incumbent is kept and the failure counted; three in a row stop the run; "
    "every checkpoint is finite and loads; the newest is that of the last good generation"
)
FAULTS = {
    "soak": Fault(
        "run of 2,000 generations", 3, 3,
        "memory grows by less than 1 MB in 100 generations after the first 100; "
        "nothing is compiled after generation 2", soak,
    ),
    "sigkill": Fault(
        "SIGKILL at a random moment, then the same command again", 200, 10,
        "every run continues, and ends bit for bit as the uninterrupted one", sigkill,
    ),
    "failpoints": Fault(
        "SIGKILL before, within or after each call to the system while saving", 120, 60,
        "the old or the new checkpoint loads; no partial file is left", failpoints,
    ),
    "interrupts": Fault(
        "SIGINT or SIGTERM", 50, 5,
        "saved after the generation; exit code 130 or 143; no process is left; continues, and "
        "ends bit for bit as the uninterrupted run; a second signal stops at once", interrupts,
    ),
    "full-disk": Fault(
        "disk full", 30, 5,
        "one line that names the path; exit code 1; the previous checkpoint loads; continues "
        "once there is space, and ends bit for bit as the undisturbed run", full_disk,
    ),
    "read-only": Fault(
        "folder that cannot be written to", 10, 5,
        "found before training; exit code 2; nothing is written", read_only,
    ),
    "damage": Fault(
        "bit flipped in a checkpoint or a model, or the file cut", 500, 250,
        "refused with the name of the file; `--resume auto` uses the previous checkpoint and "
        "says so",
        damage,
    ),
    "env-raises": Fault("environment raises", 20, 5, STOPS, broken("Raises")),
    "env-nan": Fault("environment returns NaN", 20, 5, STOPS, broken("NaN")),
    "env-shape": Fault("environment returns a wrong shape", 20, 5, STOPS, broken("Shape")),
    "env-hangs": Fault(
        "environment hangs, in Python or in C with the interpreter's lock", 20, 4,
        f"{STOPS}; within the time limit", hangs,
    ),
    "worker-killed": Fault(
        "worker process of an environment killed", 20, 5, STOPS, worker_killed
    ),
    "nan-loss": Fault("NaN in the loss", 25, 5, KEEPS, injected("loss")),
    "nan-gradient": Fault("NaN in a gradient", 25, 5, KEEPS, injected("gradient")),
    "nan-expert": Fault(
        "NaN in one expert", 25, 5,
        "the run continues with the others and counts it; every checkpoint is finite and loads",
        injected("expert"),
    ),
    "nan-experts": Fault("NaN in all experts", 25, 5, KEEPS, injected("experts")),
}  # fmt: skip
