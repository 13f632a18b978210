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

from capo.cli.arguments import RunPath, TaskOptions, about, load_model
from capo.errors import UsageError, check_least, install_hint

if TYPE_CHECKING:
    from capo.diagnostics.trials import Trial


def parse_depths(text: str) -> tuple[int, ...]:
    """Parses 2,4,6 as numbers of epochs."""
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
    task: tyro.conf.OmitArgPrefixes[TaskOptions] = TaskOptions(),  # noqa: B008 (frozen)
    vec_normalize: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Split the KL of a policy's update into signal and waste.

    Example: capo diagnose runs/Hopper-v4__capo__1__* --epochs 2,10,40

    Args:
        run: A run folder, a model file, or a PPO saved by Stable-Baselines3 (.zip).
        epochs: Depths to measure.
        experts: Shuffles of each batch.
        batches: New batches to collect.
        seed: Seed of the batches and the shuffles.
        learning_rate: Learning rate of the updates; default: that of the run before annealing.
        damping: Minimum damping of the natural gradient, as a share of F's largest eigenvalue.
        task: The task to collect in; a .zip needs --env.
        vec_normalize: VecNormalize file of the .zip, if it was trained with one.
        trust: Read the .zip, although unpickling can run code.
    """
    _check_study(experts, batches, seed, learning_rate, damping)
    from capo.storage.compiled import prepare_jax

    prepare_jax()
    rate = {"learning_rate": learning_rate}
    if run.suffix == ".zip":
        if learning_rate is not None:
            raise UsageError(
                "--learning-rate is not for a Stable-Baselines3 .zip, which has its own"
            )
        subject, rate = _sb3_subject(run, task.env, vec_normalize, trust, seed), {}
    elif vec_normalize is not None or trust:
        raise UsageError("--vec-normalize and --trust are for a Stable-Baselines3 .zip")
    else:
        subject = _capo_subject(run, task)
    repeat = functools.partial(subject.trials, experts=experts, batches=batches, seed=seed, **rate)
    _study(run, subject, epochs, repeat, damping)
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
        check_least(name, value, least)
    if learning_rate is not None and not 0 < learning_rate < math.inf:
        raise UsageError(f"--learning-rate is {learning_rate}; it must be above 0")


class _Subject(NamedTuple):
    """The policy whose update is repeated."""

    title: str
    epochs: int
    """Depth of its own updates."""
    returns: dict[int, float]
    """Known returns, by depth."""
    trials: "Callable[..., Iterator[Trial]]"


def _study(
    run: Path,
    subject: _Subject,
    epochs: tuple[int, ...],
    repeat: "Callable[[tuple[int, ...]], Iterator[Trial]]",
    damping: float,
) -> None:
    """Repeats the updates, prints the table and writes the numbers and the picture."""
    from rich.console import Console

    from capo.diagnostics.study import check_depths, study, table
    from capo.report.plots import plot_study
    from capo.storage.files import check_writable, write_json

    output = run / "diagnose" if run.is_dir() else run.with_name(f"{run.stem}-diagnose")
    check_writable(output.parent)
    depths, own = check_depths(epochs, subject.epochs)
    with Console().status("repeating the update"), about(run):
        numbers = study(repeat(depths), own, damping)
    print(f"{subject.title}\n{table(numbers, subject.returns)}")
    command = shlex.join(["capo", *sys.argv[1:]])
    write_json(output.with_suffix(".json"), {"of": subject.title, "command": command, **numbers})
    plot_study(output.with_suffix(".png"), numbers, subject.title)
    print(f"written: {output}.json, {output}.png")


def _capo_subject(run: Path, task: TaskOptions) -> _Subject:
    from capo.diagnostics.trials import trials
    from capo.runs.reading import evaluation

    model = load_model(run, task)
    config, returns = model.config, {}
    if run.is_dir() and not math.isnan(mean := evaluation(run)):
        returns[config.epochs] = mean
    title = f"{config.env_id}, {config.algo}, seed {config.seed}"
    return _Subject(title, config.epochs, returns, functools.partial(trials, model))


def _sb3_subject(
    path: Path, env: str | None, statistics: Path | None, trust: bool, seed: int
) -> _Subject:
    for file in (path, statistics):
        if file is not None and not file.is_file():
            raise UsageError(f"there is no file {file}")
    if not trust:
        raise UsageError(
            f"{path} is read by unpickling, which can run any code inside it; "
            "if you trust its source, add --trust"
        )
    if env is None:
        raise UsageError(
            f"{path} does not name its environment; add --env, such as --env Hopper-v4"
        )
    try:
        from capo import sb3
    except ImportError as error:
        raise UsageError(
            f"reading {path} needs Stable-Baselines3: {install_hint('sb3')}"
        ) from error
    model = sb3.load(path, env, seed, statistics)
    title = f"{env}, {path.name} (Stable-Baselines3)"
    return _Subject(title, model.n_epochs, {}, functools.partial(sb3.trials, model))
