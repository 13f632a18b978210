"""Each fault once or twice, for real; `make faults` does it often."""

import numpy as np
import pytest

from faults import FAULTS, NotHereError
from faults.soaking import soak

TIMES = {"sigkill": 2, "failpoints": 12, "interrupts": 1, "damage": 12, "env-hangs": 2}
"""Once, where nothing else is said."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name != "soak"])
def test_what_must_hold_holds(name, tmp_path):
    times = TIMES.get(name, 1)
    try:
        assert FAULTS[name].trial(tmp_path, np.random.default_rng(0), times) >= 1
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_a_long_run_neither_grows_nor_compiles(tmp_path):
    soak(tmp_path, np.random.default_rng(0), 1, generations=400)
