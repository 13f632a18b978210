"""The commands. Everything heavy is imported where it is needed, so that --help is quick."""

import functools
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.config import Config, UsageError

if TYPE_CHECKING:
    from capo.envs import VectorEnv
    from capo.evaluation import Evaluation
    from capo.runs import RunFolder
    from capo.study import Trial
    from capo.train import Generation


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
RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]


def train(
    config: tyro.conf.OmitArgPrefixes[Config],
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    eval_episodes: int = 20,
) -> int:
    """Train a policy, evaluate it and leave everything in a run folder.

    Example: capo train Hopper-v4 --algo capo -n 1M --seed 1

    Args:
        config: Everything that decides the run.
        run_dir: The folder to write; default runs/{env}__{algo}__{seed}__{time}.
        eval_episodes: Episodes of the evaluation at the end; 0 for none.
    """
    from rich.console import Console

    from capo.envs import make
    from capo.evaluation import evaluate
    from capo.methods import resolve
    from capo.runs import RunFolder, check_free, default_folder
    from capo.train import compile_generation

    if eval_episodes < 0:
        raise UsageError(f"--eval-episodes is {eval_episodes}; it must be at least 0")
    config = resolve(config)
    folder = run_dir or default_folder(config)
    check_free(folder)
    env = make(config.env_id, config.num_envs, config.seed, config.backend)
    console = Console(highlight=False, soft_wrap=True)
    console.print(_headline(config, env))
    with console.status("compiling"):
        seconds = compile_generation(config, env.observation_space, env.action_space)
    console.print(f"compiling took {seconds:.1f} s")
    run = RunFolder(folder, config, env.backend)
    last = _train_into(run, env, console)
    if said := _theorem(run.rows):
        console.print(said)
    if last.number + 1 < config.generations:
        console.print(f"interrupted after {last.info['steps']:.0f} steps")
        run.finish(last.model, "interrupted", None)
    else:
        result = evaluate(last.model, eval_episodes) if eval_episodes else None
        run.finish(last.model, "finished", result)
        if result is not None:
            console.print("evaluation: " + _in_words(result))
    where = shlex.quote(str(folder))
    console.print(f"run folder: {where}/ (metrics.jsonl, model.safetensors, summary.png)")
    console.print(f"next:       capo eval {where} --episodes 100")
    return 0 if last.number + 1 == config.generations else 130


def _train_into(run: "RunFolder", env: "VectorEnv", console) -> "Generation":
    """Trains into the run folder; on an interruption or an error, what there is gets saved."""
    from capo.console import Progress
    from capo.train import generations

    last: Generation | None = None
    try:
        with Progress(console, run.config).running() as progress:
            for last in generations(run.config, env):
                run.log(last.info)
                progress.show(last.info)
    except KeyboardInterrupt:
        if last is None:
            raise
    except Exception:
        if last is not None:
            run.finish(last.model, "failed", None)
            console.print(f"stopped by an error; the model so far is in {run.path}")
        raise
    finally:
        env.close()
    assert last is not None
    return last


def evaluate_run(
    run: RunPath,
    episodes: int = 20,
    seed: int | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Evaluate a trained policy: mean return, standard error, episode length.

    Example: capo eval runs/Hopper-v4__capo__1__20260101-120000 --episodes 100

    Args:
        run: A run folder or a model file.
        episodes: How many episodes to play.
        seed: Seed of the episodes; default: decided by the run's own seed.
        as_json: Print JSON, with every episode, instead of text.
    """
    if episodes < 1:
        raise UsageError(f"--episodes is {episodes}; it must be at least 1")
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must be between 0 and {2**31 - 1}")
    from capo.evaluation import evaluate
    from capo.model import Model
    from capo.runs import find_model

    model = Model.load(find_model(run))
    result = evaluate(model, episodes, seed)
    if as_json:
        named = {"env_id": model.config.env_id, "algo": model.config.algo, **result.to_dict()}
        print(json.dumps(named, indent=2))
    else:
        print(f"{model.config.env_id}, {model.config.algo}: {_in_words(result)}")
    return 0


def diagnose(
    run: RunPath,
    epochs: Depths = (2, 4, 6, 10, 15, 20, 40),
    experts: int = 8,
    batches: int = 4,
    seed: int = 0,
    learning_rate: float | None = None,
    damping: float = 1e-3,
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None,
    vec_normalize: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Show where the KL of a policy's update goes, by depth and by width.

    Example: capo diagnose runs/Hopper-v4__capo__1__20260101-120000 --epochs 2,10,40

    Args:
        run: A run folder, a model file, or a PPO saved by Stable-Baselines3 (.zip).
        epochs: Depths to look at.
        experts: Shuffles of each batch.
        batches: Fresh batches to collect.
        seed: Seed of the batches and the shuffles.
        learning_rate: Of the updates; default: the run's, as it was before annealing.
        damping: Least damping of the natural gradient, as a share of F's largest eigenvalue.
        env: The environment of a Stable-Baselines3 model.
        vec_normalize: Its VecNormalize file, if it was trained with one.
        trust: Read the .zip although unpickling can run code.
    """
    _check_study(experts, batches, seed, learning_rate, damping)
    from rich.console import Console

    from capo.experts import prepare_devices
    from capo.model import write_json
    from capo.report import diagnosis
    from capo.runs import check_writable
    from capo.study import check_depths, study, table

    prepare_devices()
    rate = {"learning_rate": learning_rate}
    if run.suffix == ".zip":
        if learning_rate is not None:
            raise UsageError("--learning-rate is not for a Stable-Baselines3 .zip, it has its own")
        subject, rate = _foreign_subject(run, env, vec_normalize, trust, seed), {}
    elif env is not None or vec_normalize is not None or trust:
        raise UsageError("--env, --vec-normalize and --trust are for a Stable-Baselines3 .zip")
    else:
        subject = _own_subject(run)
    beside = run / "diagnose" if run.is_dir() else run.with_name(f"{run.stem}-diagnose")
    check_writable(beside.parent)
    depths, own = check_depths(epochs, subject.epochs)
    with Console().status("repeating the update"):
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
        if not least <= value < math.inf:
            raise UsageError(f"--{name} is {value}; it must be at least {least}")
    if learning_rate is not None and not 0 < learning_rate < math.inf:
        raise UsageError(f"--learning-rate is {learning_rate}; it must be above 0")


class _Subject(NamedTuple):
    """Whose update is repeated, and how."""

    title: str
    epochs: int
    returns: dict[int, float]
    trials: Callable[..., "Iterator[Trial]"]


def _own_subject(run: Path) -> _Subject:
    from capo.model import Model
    from capo.runs import find_model
    from capo.study import trials

    file = find_model(run)
    model = Model.load(file)
    config, score = model.config, file.with_name("eval.json")
    returns = {}
    if run.is_dir() and score.is_file():
        returns[config.epochs] = float(json.loads(score.read_text())["mean"])
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


def _headline(config: Config, env: "VectorEnv") -> str:
    """The versions and sizes of a run in one line."""
    from capo.methods import method_of
    from capo.runs import versions

    found = " ".join(f"{name} {version}" for name, version in versions().items() if version)
    method = method_of(config.algo)
    sizes = f"K={method.width(config)} E={method.depth(config)}"
    batch = f"{config.num_envs}×{config.num_steps} samples × {config.generations} generations"
    spaces = f"obs {env.observation_space.shape}, act {env.action_space.shape or env.action_space}"
    return f"{found} | {config.env_id} on {env.backend}, {spaces} | {config.algo} {sizes}, {batch}"


def _theorem(rows: list[dict[str, Any]]) -> str:
    """How often Theorem 1 failed; nothing for a run that never had several experts."""
    wide = [row for row in rows if "consensus/violations" in row]
    if not wide:
        return ""
    pool, network = (
        sum(row[f"consensus/{name}"] > 0 for row in wide) for name in ("q_violations", "violations")
    )
    return (
        f"Theorem 1 in {len(wide)} generations with several experts: "
        f"the pool broke it {pool} times, the network {network} times"
    )


def _in_words(result: "Evaluation") -> str:
    error = "" if len(result.returns) == 1 else f" ± {result.standard_error:.1f} (SE)"
    length = sum(result.lengths) / len(result.lengths)
    plural = "" if len(result.returns) == 1 else "s"
    return (
        f"return {result.mean:.1f}{error} over {len(result.returns)} episode{plural}, "
        f"length {length:.0f}"
    )


COMMANDS = {"train": train, "eval": evaluate_run, "diagnose": diagnose}
