"""The expected time of a run, and the cores it gets."""

import math
import os

import pytest

from capo.config import Config
from capo.errors import UsageError
from capo.paper.estimate import Speed
from capo.paper.launch import core_sets
from capo.paper.tasks import HOPPER


def test_the_expected_time_of_a_run():
    speed = Speed(start=10.0, collect=0.5, update=0.1)
    plain = Config(HOPPER, algo="ppo")
    generations = 1_000_000 // 4096
    assert math.isclose(speed.seconds(plain), 10 + generations * 0.6)
    wide = plain.replace(algo="capo")
    assert math.isclose(speed.seconds(wide), 10 + generations * (0.5 + 0.1 * 50 / 20))
    assert speed.seconds(plain.replace(epochs=40)) == pytest.approx(10 + generations * 0.9)


def test_cores_are_divided_among_runs():
    cores = os.sched_getaffinity(0)
    assert set().union(*core_sets(None)) == cores
    assert len(core_sets(None)) == len(cores)
    assert core_sets(1) == [frozenset(cores)]
    with pytest.raises(UsageError, match=r"--jobs is \d+; this process has"):
        core_sets(len(cores) + 1)
