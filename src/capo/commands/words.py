"""Arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import tyro

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""A run folder, or a file of one."""
