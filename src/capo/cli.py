"""The commands. Everything heavy is imported where it is needed, so that --help is quick."""

import contextlib
import functools
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.config import Config, UsageError

if TYPE_CHECKING:
    from capo.envs import VectorEnv
    from capo.evaluation import Evaluation
    from capo.runs import RunFolder
    from capo.train import Generation

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


def _in_words(result: "Evaluation") -> str:
    error = "" if len(result.returns) == 1 else f" ± {result.standard_error:.1f} (SE)"
    length = sum(result.lengths) / len(result.lengths)
    plural = "" if len(result.returns) == 1 else "s"
    return (
        f"return {result.mean:.1f}{error} over {len(result.returns)} episode{plural}, "
        f"length {length:.0f}"
    )


COMMANDS = {"train": train, "eval": evaluate_run}
DESCRIPTION = "Consensus Aggregation for Policy Optimization: train wider, not deeper."


def main(argv: list[str] | None = None) -> int:
    """Runs a command; a mistake in its words is one line on standard error and exit code 2."""
    words = sys.argv[1:] if argv is None else argv
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            call = tyro.extras.subcommand_cli_from_dict(
                {name: _later(function) for name, function in COMMANDS.items()},
                prog="capo",
                description=DESCRIPTION,
                args=words,
            )
    except SystemExit as stop:
        if stop.code == 2:
            return _fail(_one_line(complaint.getvalue()), 2)
        raise
    except UsageError as error:
        return _fail(str(error), 2)
    return _run(call)


def _later(function):
    """The same command line, but what comes out of parsing is the call, not its result."""

    @functools.wraps(function)
    def parsed(*args, **kwargs):
        return functools.partial(function, *args, **kwargs)

    return parsed


def _run(call) -> int:
    from capo.envs import EnvError

    try:
        return call()
    except UsageError as error:
        return _fail(str(error), 2)
    except EnvError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _fail(message: str, code: int) -> int:
    print("capo: " + " ".join(message.split()), file=sys.stderr)
    return code


def _one_line(framed: str) -> str:
    """The message in tyro's framed complaint, and what it suggests, if anything.

    The frame is drawn with lines, or with dashes under a title where the terminal has no lines, and
    coloured where it has colours.
    """
    sections: list[list[str]] = [[]]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", framed)
    for line in (line.strip(" │") for line in plain.splitlines()):
        if line.startswith("╭") or (line and set(line) <= set("─-╰╯")):
            sections.append([])
        elif line:
            sections[-1].append(line)
    message, *hints = [s for s in sections[1:] if s] or [[plain]]
    said = re.sub(r"^Error parsing __tyro\S*: ", "", " ".join(message)).removesuffix(".")
    for hint in hints:
        if hint[0] == "Perhaps you meant:":
            said += f"; did you mean {hint[1].split()[0]}?"
        elif hint[0].startswith("Available subcommands"):
            said += "; " + hint[0][0].lower() + hint[0][1:]
    return said
