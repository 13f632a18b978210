"""capo diagnose."""

import functools
import math
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.commands.words import RunPath, TaskName, about, load_model
from capo.config import UsageError, check_least

if TYPE_CHECKING:
    from capo.study import Trial


def parse_depths(text: str) -> tuple[int, ...]:
    """Reads 2,4,6 as numbers of epochs."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"{text!r} is not a list of epochs; write 2,4,6,10") from None


Depths = Annotated[
    tuple[int, ...],
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="E,E,…",
        instance_from_str=lambda words: parse_depths(words[0]),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda depths: [",".join(map(str, depths))],
    ),
]


def diagnose(
    run: RunPath,
    epochs: Depths = (2, 4, 6, 10, 15, 20, 40),
    experts: int = 8,
    batches: int = 4,
    seed: int = 0,
    learning_rate: float | None = None,
    damping: float = 1e-3,
    env: TaskName = None,
    vec_normalize: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Show where the KL of a policy's update goes, by depth and width.

    Example: capo diagnose runs/Hopper-v4__capo__1__* --epochs 2,10,40

    Args:
        run: A run folder, a model file, or a PPO saved by Stable-Baselines3 (.zip).
        epochs: Depths to look at.
        experts: Shuffles of each batch.
        batches: Fresh batches to collect.
        seed: Seed of the batches and the shuffles.
        learning_rate: Of the updates; default: the run's, as it was before annealing.
        damping: Least damping of the natural gradient, as a share of F's largest eigenvalue.
        env: The task to collect in: of a .zip, or in place of the model's own.
        vec_normalize: Its VecNormalize file, if it was trained with one.
        trust: Read the .zip although unpickling can run code.
    """
    _check_study(experts, batches, seed, learning_rate, damping)
    from rich.console import Console

    from capo.backend import prepare_backend
    from capo.files import check_writable, write_json
    from capo.report import diagnosis
    from capo.study import check_depths, study, table

    prepare_backend()
    rate = {"learning_rate": learning_rate}
    if run.suffix == ".zip":
        if learning_rate is not None:
            raise UsageError("--learning-rate is not for a Stable-Baselines3 .zip, it has its own")
        subject, rate = _foreign_subject(run, env, vec_normalize, trust, seed), {}
    elif vec_normalize is not None or trust:
        raise UsageError("--vec-normalize and --trust are for a Stable-Baselines3 .zip")
    else:
        subject = _own_subject(run, env)
    beside = run / "diagnose" if run.is_dir() else run.with_name(f"{run.stem}-diagnose")
    check_writable(beside.parent)
    depths, own = check_depths(epochs, subject.epochs)
    with Console().status("repeating the update"), about(run):
        found = study(subject.trials(depths, experts, batches, seed, **rate), own, damping)
    print(f"{subject.title}\n{table(found, subject.returns)}")
    command = shlex.join(["capo", *sys.argv[1:]])
    write_json(beside.with_suffix(".json"), {"of": subject.title, "command": command, **found})
    diagnosis(beside.with_suffix(".png"), found, subject.title)
    print(f"written: {beside}.json, {beside}.png")
    return 0


def _check_study(
    experts: int, batches: int, seed: int, learning_rate: float | None, damping: float
) -> None:
    for name, value, least in (
        ("experts", experts, 1),
        ("batches", batches, 1),
        ("seed", seed, 0),
        ("damping", damping, 0),
    ):
        check_least(f"--{name}", value, least)
    if learning_rate is not None and not 0 < learning_rate < math.inf:
        raise UsageError(f"--learning-rate is {learning_rate}; it must be above 0")


class _Subject(NamedTuple):
    """Whose update is repeated, and how."""

    title: str
    epochs: int
    returns: dict[int, float]
    trials: Callable[..., "Iterator[Trial]"]


def _own_subject(run: Path, env: str | None) -> _Subject:
    from capo.records import evaluation
    from capo.study import trials

    model = load_model(run, env)
    config, returns = model.config, {}
    if run.is_dir() and not math.isnan(mean := evaluation(run)):
        returns[config.epochs] = mean
    title = f"{config.env_id}, {config.algo}, seed {config.seed}"
    return _Subject(title, config.epochs, returns, functools.partial(trials, model))


def _foreign_subject(
    path: Path, env: str | None, statistics: Path | None, trust: bool, seed: int
) -> _Subject:
    for file in (path, statistics):
        if file is not None and not file.is_file():
            raise UsageError(f"there is no file {file}")
    if not trust:
        raise UsageError(
            f"{path} is read by unpickling, which can run any code inside it; "
            "if you know where it comes from, add --trust"
        )
    if env is None:
        raise UsageError(f"{path} does not say its environment; add --env, such as --env Hopper-v4")
    try:
        from capo import sb3
    except ImportError as error:
        raise UsageError(
            f"reading {path} needs Stable-Baselines3: pip install 'capo-rl[sb3]'"
        ) from error
    model = sb3.load(path, env, seed, statistics)
    title = f"{env}, {path.name} (Stable-Baselines3)"
    return _Subject(title, model.n_epochs, {}, functools.partial(sb3.trials, model))
