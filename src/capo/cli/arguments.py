"""Arguments shared by several commands."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.errors import UsageError

if TYPE_CHECKING:
    from capo.model import Model

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""A run folder, one of its checkpoints, or a model file."""
TaskName = Annotated[str | None, tyro.conf.arg(metavar="ENV")]
"""A task to use instead of the model's own."""


def check_seed(seed: int | None) -> None:
    """Raises `UsageError` for a seed outside the range of environments."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must be between 0 and {2**31 - 1}")


def load_model(run: Path, env: str | None = None) -> "Model":
    """The model of a run, with the task `env` instead of its own if it is given.

    Only the module of a given `module:id` is imported: a file must not decide what runs.
    """
    from capo.envs.backends import choose_backend
    from capo.envs.registry import import_module_of
    from capo.runs.folder import model_file, read_model

    model = read_model(run)
    if env is None:
        with about(model_file(run)):
            choose_backend(model.config.env_id, model.config.backend)
        return model
    import_module_of(env)
    return dataclasses.replace(model, config=model.config.replace(env_id=env, backend="auto"))


@contextlib.contextmanager
def about(file: Path) -> Iterator[None]:
    """Prefixes a `UsageError` about the content of a file with its name."""
    try:
        yield
    except UsageError as error:
        if str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error
