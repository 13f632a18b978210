"""Arguments shared by several commands."""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.errors import UsageError

if TYPE_CHECKING:
    from capo.model import Model

MOST_SEEDS = 10_000
"""Upper limit of a number of seeds."""
RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""A run folder, one of its checkpoints, or a model file."""
TaskName = Annotated[str | None, tyro.conf.arg(metavar="ENV")]
"""A task to use instead of the model's own."""


def check_seed(seed: int | None) -> None:
    """Raises `UsageError` for a seed outside the range of environments."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must be between 0 and {2**31 - 1}")


@dataclass(frozen=True)
class TaskOptions:
    """What a policy plays, if not its own task as it was in training."""

    env: TaskName = None
    """The task to play instead of the model's own, with the same spaces."""
    env_kwargs: Annotated[str | None, tyro.conf.arg(metavar="JSON")] = None
    """Arguments of the environment instead of the model's."""
    wrapper: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="MODULE:CLASS")
    ] = ()
    """Wrappers instead of the model's; none: without."""
    network: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None
    """The function that made the model's network, if it is one of your own."""


def load_model(run: Path, task: TaskOptions) -> "Model":
    """The model of a run, with the given task, arguments and wrappers instead of its own.

    Only modules that are given are imported: a file must not decide what runs.
    """
    from capo.cli.resuming import import_named
    from capo.envs.backends import choose_backend
    from capo.envs.wrapping import check_wrappers
    from capo.runs.folder import model_file, read_model

    wrappers = () if task.wrapper == ("none",) else task.wrapper
    import_named(task.env or "", wrappers, task.network or "")
    model = read_model(run)
    changes: dict[str, Any] = {}
    if task.env is not None:
        changes |= {"env_id": task.env, "backend": "auto"}
    if task.env_kwargs is not None:
        changes["env_kwargs"] = task.env_kwargs
    if task.wrapper:
        changes["wrappers"] = wrappers
    config = model.config.replace(**changes)
    with about(model_file(run)):
        choose_backend(config.env_id, config.backend, bool(config.wrappers or config.env_kwargs))
        check_wrappers(config.wrappers)
    return dataclasses.replace(model, config=config)


@contextlib.contextmanager
def about(file: Path) -> Iterator[None]:
    """Prefixes a `UsageError` about the content of a file with its name."""
    try:
        yield
    except UsageError as error:
        if str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error


def parse_seeds(text: str) -> tuple[int, ...]:
    """Reads 5 as the seeds 1 to 5, 3-7 as 3 to 7, and 1,4,9 as these."""
    seeds: list[int] = []
    try:
        for word in text.split(","):
            first, dash, last = word.partition("-")
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        seeds = []
    if text.isdigit():
        seeds = list(range(1, int(text) + 1))
    if not seeds or len(seeds) > MOST_SEEDS or len(set(seeds)) < len(seeds):
        raise UsageError(f"{text!r} are no seeds; write 5 for the first five, 3-7, or 1,4,9")
    return tuple(seeds)


SEEDS = PrimitiveConstructorSpec(
    nargs=1,
    metavar="N|A-B|A,B,…",
    instance_from_str=lambda words: parse_seeds(words[0]),
    is_instance=lambda value: isinstance(value, tuple | None),
    str_from_instance=lambda seeds: ["None" if seeds is None else ",".join(map(str, seeds))],
)
"""How seeds are written on the command line."""
