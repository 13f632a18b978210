"""The expected time of a run, and the cores it gets."""

import math
import os
from pathlib import Path

import pytest

from capo.config import Config
from capo.errors import UsageError
from capo.paper.tasks import HOPPER
from capo.sweeps.estimate import Speed
from capo.sweeps.jobs import Job
from capo.sweeps.launchers import Local, core_sets


def test_the_expected_time_of_a_run():
    speed = Speed(start=10.0, collect=0.5, update=0.1)
    plain = Config(HOPPER, algo="ppo", preset="corrected")
    generations = 1_000_000 / 4096
    assert math.isclose(speed.seconds(plain), 10 + generations * 0.6)
    wide = Config(HOPPER, algo="capo", preset="corrected")
    assert math.isclose(speed.seconds(wide), 10 + generations * (0.5 + 0.1 * 50 / 20))
    assert speed.seconds(plain.replace(epochs=40)) == pytest.approx(10 + generations * 0.9)


def test_a_job_is_as_nice_as_its_launcher(tmp_path, monkeypatch):
    """A job has a session of its own, whose group has a nice value, too."""
    group = Path("/proc/self/autogroup")
    if not group.is_file() or os.geteuid():
        pytest.skip("the kernel has no autogroups, or does not let us set them")
    monkeypatch.setattr("os.nice", lambda _: 7)
    launched = Local(1).submit(Job(Config("no-such-task"), tmp_path / "run"))
    try:
        assert Path(f"/proc/{launched._process.pid}/autogroup").read_text().endswith("nice 7\n")
    finally:
        launched.stop(now=True)
        assert launched._process.wait() < 0


def test_cores_are_divided_among_runs():
    cores = os.sched_getaffinity(0)
    assert set().union(*core_sets(None)) == cores
    assert len(core_sets(None)) == len(cores)
    assert core_sets(1) == [frozenset(cores)]
    with pytest.raises(UsageError, match=r"jobs is \d+; this process has"):
        core_sets(len(cores) + 1)
