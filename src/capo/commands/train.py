"""capo train."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from capo.commands.evaluate import in_words
from capo.config import Config, check_least

if TYPE_CHECKING:
    from capo.envs import VectorEnv
    from capo.model import Model
    from capo.runs import RunFolder
    from capo.train import Generation


def train(
    config: tyro.conf.OmitArgPrefixes[Config],
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    eval_episodes: int = 20,
    track: Literal["wandb", "trackio"] | None = None,
    track_project: Annotated[str, tyro.conf.arg(metavar="NAME")] = "capo",
) -> int:
    """Train a policy, evaluate it and leave everything in a run folder.

    Example: capo train Hopper-v4 --algo capo -n 1M --seed 1

    Args:
        config: Everything that decides the run.
        run_dir: The folder to write; default runs/{env}__{algo}__{seed}__{time}.
        eval_episodes: Episodes of the evaluation at the end; 0 for none.
        track: Send the metrics to this service as well.
        track_project: The project there.
    """
    from rich.console import Console

    from capo.envs import make
    from capo.methods import resolve
    from capo.observations import settle
    from capo.runs import RunFolder, check_free, default_folder
    from capo.tracking import check_tracking
    from capo.train import compile_generation

    check_least("--eval-episodes", eval_episodes, 0)
    config = resolve(config)
    folder = run_dir or default_folder(config)
    check_free(folder)
    if track is not None:
        check_tracking(track)
    env = make(config.env_id, config.num_envs, config.seed, config.backend)
    config = settle(config, env.observation_space)
    console = Console(highlight=False, soft_wrap=True)
    console.print(_headline(config, env))
    with console.status("compiling"):
        seconds = compile_generation(config, env.observation_space, env.action_space)
    console.print(f"compiling took {seconds:.1f} s")
    run = RunFolder(folder, config, env.backend, track, track_project)
    last = _train_into(run, env, console)
    return _conclude(run, last, eval_episodes, console)


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
            run.finish(None, "interrupted", None)
            raise
    except Exception:
        run.finish(last and last.model, "failed", None)
        if last is not None:
            console.print(f"stopped by an error; the model so far is in {run.path}")
        raise
    finally:
        env.close()
    assert last is not None
    return last


def _conclude(run: "RunFolder", last: "Generation", episodes: int, console) -> int:
    """Evaluates what was trained to the end, says what there is now; the exit code."""
    if said := _theorem(run.rows):
        console.print(said)
    if interrupted := last.number + 1 < run.config.generations:
        console.print(f"interrupted after {last.info['steps']:.0f} steps")
        run.finish(last.model, "interrupted", None)
    else:
        _evaluate_into(run, last.model, episodes, console)
    where = shlex.quote(str(run.path))
    console.print(f"run folder: {where}/ (metrics.jsonl, model.safetensors, summary.png)")
    console.print(f"next:       capo eval {where} --episodes 100")
    return 130 if interrupted else 0


def _evaluate_into(run: "RunFolder", model: "Model", episodes: int, console) -> None:
    """Evaluates and finishes the run; an evaluation that does not end well leaves the model."""
    from capo.evaluation import evaluate

    try:
        result = evaluate(model, episodes) if episodes else None
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        run.finish(model, "interrupted" if interrupted else "failed", None)
        raise
    run.finish(model, "finished", result)
    if result is not None:
        console.print("evaluation: " + in_words(result))


def _headline(config: Config, env: "VectorEnv") -> str:
    """The versions and sizes of a run in one line."""
    from capo.methods import method_of
    from capo.runs import versions

    found = " ".join(f"{name} {version}" for name, version in versions().items() if version)
    method = method_of(config.algo)
    sizes = f"K={method.width(config)} E={method.depth(config)}"
    batch = f"{config.num_envs}×{config.num_steps} samples × {config.generations} generations"
    seen, done = (space.shape or space for space in (env.observation_space, env.action_space))
    spaces = f"obs {seen}, act {done}"
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
