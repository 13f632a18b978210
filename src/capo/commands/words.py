"""Arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import tyro

from capo.config import UsageError

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""A run folder, or a file of one."""


def check_seed(seed: int | None) -> None:
    """Refuses a seed that environments do not take."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must be between 0 and {2**31 - 1}")
