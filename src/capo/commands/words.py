"""Arguments that several commands take."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.config import UsageError

if TYPE_CHECKING:
    from capo.model import Model

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""A run folder, or a file of one."""
TaskName = Annotated[str | None, tyro.conf.arg(metavar="ENV")]
"""A task in place of the model's own."""


def check_seed(seed: int | None) -> None:
    """Refuses a seed that environments do not take."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must be between 0 and {2**31 - 1}")


def model_file(run: Path) -> Path:
    """The model of a run; a name that the system does not take is one line too."""
    from capo.runs import find_model

    try:
        return find_model(run)
    except OSError as error:
        raise UsageError(f"{run} cannot be read: {error.strerror}") from error


def load_model(run: Path, env: str | None = None) -> "Model":
    """The model of a run, on the task that a person named instead of its own, if one did.

    Only then is the module of a `module:id` imported: a file must not decide what runs.
    """
    from capo.model import Model
    from capo.registry import choose_backend, import_module_of

    file = model_file(run)
    model = Model.load(file)
    if env is None:
        with about(file):
            choose_backend(model.config.env_id, model.config.backend)
        return model
    import_module_of(env)
    return dataclasses.replace(model, config=model.config.replace(env_id=env, backend="auto"))


@contextlib.contextmanager
def about(file: Path) -> Iterator[None]:
    """Puts the file before a complaint about what came out of it."""
    try:
        yield
    except UsageError as error:
        if str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error
