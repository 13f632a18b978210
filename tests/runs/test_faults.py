"""Each fault once or a few times; `make faults` repeats them often."""

import json

import numpy as np
import pytest

from support.faults import FAULTS, NotHereError
from support.faults.__main__ import BEGIN, END, FILE, PAGE, table
from support.faults.soaking import soak

TIMES = {"sigkill": 2, "failpoints": 12, "interrupts": 1, "damage": 12, "env-hangs": 2}
"""Number of injections; 1 by default."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name != "soak"])
def test_the_guarantee_holds(name, tmp_path):
    times = TIMES.get(name, 1)
    try:
        assert FAULTS[name].trial(tmp_path, np.random.default_rng(0), times) >= 1
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_a_long_run_neither_uses_more_memory_nor_recompiles(tmp_path):
    soak(tmp_path, np.random.default_rng(0), 1, generations=400)


def test_the_page_states_the_stored_results():
    stored = json.loads(FILE.read_text())
    assert f"{BEGIN}\n{table(stored)}\n{END}" in PAGE.read_text()
