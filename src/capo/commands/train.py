"""capo train."""

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from capo.commands.evaluate import in_words
from capo.config import Config, UsageError, check_least

if TYPE_CHECKING:
    from rich.console import Console

    from capo.envs import VectorEnv
    from capo.resuming import Resumed
    from capo.runs import Recording, RunFolder
    from capo.train import Generation


def train(
    config: tyro.conf.OmitArgPrefixes[Config],
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    resume: Annotated[str | None, tyro.conf.arg(metavar="RUN|auto")] = None,
    override: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    replay: bool = True,
    checkpoint_every: int | None = None,
    env_timeout: float = 300.0,
    eval_episodes: int = 20,
    track: Literal["wandb", "trackio"] | None = None,
    track_project: Annotated[str, tyro.conf.arg(metavar="NAME")] = "capo",
) -> int:
    """Train a policy, evaluate it and leave everything in a run folder.

    Example: capo train Hopper-v4 --algo capo -n 1M --seed 1

    Args:
        config: Everything that decides the run.
        run_dir: The folder to write; default runs/{env}__{algo}__{seed}__{time}.
        resume: Go on with a run folder, or from one of its checkpoints; auto: if there is one.
        override: Let a resumed run go on with other arguments than it was begun with.
        replay: Bring a resumed run's environments back by their last actions; no: new episodes.
        checkpoint_every: Save everything each N generations; None: about 20 times; 0: at the end.
        env_timeout: Seconds that a step or reset of the environments may take; 0: any.
        eval_episodes: Episodes of the evaluation at the end; 0 for none.
        track: Send the metrics to this service as well.
        track_project: The project there.
    """
    from rich.console import Console

    from capo.resuming import FinishedError
    from capo.runs import Recording
    from capo.tracking import check_tracking

    check_least("--eval-episodes", eval_episodes, 0)
    check_least("--env-timeout", env_timeout, 0)
    if checkpoint_every is not None:
        check_least("--checkpoint-every", checkpoint_every, 0)
    if track is not None:
        check_tracking(track)
    console = Console(highlight=False, soft_wrap=True)
    recording = Recording(checkpoint_every, track, track_project)
    with contextlib.ExitStack() as stack:
        begun = None
        if resume is not None:
            try:
                begun = _reopened(config, resume, run_dir, override, console)
            except FinishedError as done:
                if resume != "auto":
                    raise
                console.print(str(done))
                return 0
        if begun is not None:
            stack.callback(begun.close)
            config = begun.checkpoint.config
        options = (replay, env_timeout, recording)
        run, start, env = _open(config, run_dir, begun, *options, console)
        stack.callback(env.close)
        with run.guarded():
            code = _learn(run, env, start, env_timeout, console)
            if code == 0:
                _evaluate(run, eval_episodes, env_timeout, console)
    _say_where(run, code, console)
    return code


def _say_where(run: "RunFolder", code: int, console: "Console") -> None:
    """The folder, and the command that may come next."""
    where, task = shlex.quote(str(run.path)), run.config.env_id
    # A task with a module of its own has to be named: files do not decide what is imported.
    typed = shlex.quote(task) if ":" in task else ""
    console.print(f"run folder: {where}/ (metrics.jsonl, model.safetensors, summary.png)")
    if code:
        console.print(f"next:       capo train {typed and typed + ' '}--resume {where}")
    else:
        named = typed and f" --env {typed}"
        console.print(f"next:       capo eval {where} --episodes 100{named}")


def _reopened(
    config: Config, resume: str, run_dir: Path | None, override: bool, console: "Console"
) -> "Resumed | None":
    """The run to go on with; None for `auto` where there is none yet."""
    from capo.commands.resume import newest_run, only_begun
    from capo.resuming import reopen, run_of
    from capo.runs import clear

    if resume != "auto":
        if run_dir is not None and run_dir.resolve() != run_of(Path(resume)).resolve():
            raise UsageError(f"--resume {resume} writes there, not into --run-dir {run_dir}")
        return reopen(Path(resume), config, override, None)
    folder = newest_run(run_dir, config)
    if folder is None:
        if run_dir is not None and only_begun(run_dir):
            clear(run_dir)
        console.print("there is no run to resume; a new one begins")
        return None
    return reopen(folder, config, override, console.print)


def _open(
    config: Config,
    run_dir: Path | None,
    begun: "Resumed | None",
    replay: bool,
    env_timeout: float,
    recording: "Recording",
    console: "Console",
) -> "tuple[RunFolder, Generation | None, VectorEnv]":
    """The run folder, the generation to go on from, and the environments, ready to learn in."""
    from capo.adapters import encoded, own_source
    from capo.methods import resolve
    from capo.observations import settle
    from capo.registry import import_module_of
    from capo.resuming import take_up
    from capo.runs import RunFolder, check_free, default_folder
    from capo.timeouts import TimedEnv
    from capo.train import compile_generation

    config = resolve(config)
    folder = begun.folder if begun else run_dir or default_folder(config)
    if begun is None:
        check_free(folder)
        import_module_of(config.env_id)
    env = own_source(config).make(config.num_envs, config.seed, config.workers)
    try:
        config = settle(config, env.observation_space)
        console.print(_headline(config, env))
        env = encoded(env, config)
        with console.status("compiling"):
            seconds = compile_generation(config, env.observation_space, env.action_space)
        console.print(f"compiling took {seconds:.1f} s")
        start = None
        if begun is not None:
            console.print(f"resuming from {begun.checkpoint.path}")
            timed = TimedEnv(env, config.env_id, env_timeout, hard=True)
            start = take_up(begun, timed, replay, console.print)
        return RunFolder(folder, config, env.backend, recording, begun), start, env
    except BaseException:
        env.close()
        raise


def _learn(
    run: "RunFolder",
    env: "VectorEnv",
    start: "Generation | None",
    env_timeout: float,
    console: "Console",
) -> int:
    """Trains into the run folder until the end or a signal; the exit code."""
    from capo.callbacks import follow
    from capo.console import Progress
    from capo.interrupts import Interrupt
    from capo.train import generations

    done = start.number + 1 if start else 0
    with (
        Interrupt().listening() as interrupt,
        Progress(console, run.config, done).running() as progress,
    ):
        steps = generations(run.config, env, start, env_timeout, end_process=True)
        follow(steps, [run.see, lambda _, info: progress.show(info), interrupt])
        run.checkpoint()
    assert run.last is not None
    if said := _theorem(run.rows()):
        console.print(said)
    if interrupt.number is not None:
        run.finish("interrupted")
        console.print(f"interrupted after {run.last.info['steps']:.0f} steps")
        return 128 + interrupt.number
    return 0


def _evaluate(run: "RunFolder", episodes: int, env_timeout: float, console: "Console") -> None:
    """Evaluates what was trained to the end, and finishes the run."""
    from capo.adapters import own_source, timed
    from capo.evaluation import evaluate

    assert run.last is not None
    result = None
    if episodes:
        source = timed(own_source(run.config), env_timeout, hard=True)
        result = evaluate(run.last.model, episodes, env=source)
    run.finish("finished", result)
    if result is not None:
        console.print("evaluation: " + in_words(result))


def _headline(config: Config, env: "VectorEnv") -> str:
    """The versions and sizes of a run in one line."""
    from capo.methods import method_of
    from capo.provenance import versions

    found = " ".join(f"{name} {version}" for name, version in versions().items() if version)
    method = method_of(config.algo)
    sizes = f"K={method.width(config)} E={method.depth(config)}"
    batch = f"{config.num_envs}×{config.num_steps} samples × {config.generations} generations"
    seen, done = (space.shape or space for space in (env.observation_space, env.action_space))
    spaces = f"obs {seen}, act {done}"
    where = f"{env.backend}{_processes(env)}"
    return f"{found} | {config.env_id} on {where}, {spaces} | {config.algo} {sizes}, {batch}"


def _processes(env: "VectorEnv") -> str:
    """How many processes step the environments, if it is not this one alone."""
    workers = getattr(env, "workers", 0)
    return f" in {workers + 1} processes" if workers else ""


def _theorem(rows: list[dict[str, Any]]) -> str:
    """How often Theorem 1 failed; nothing for a run that never had several experts."""
    from capo.records import broken

    found = broken(rows)
    if not found.generations:
        return ""
    shortened = f", {found.shortened} of them by a step that the line search shortened"
    return (
        f"Theorem 1 in {found.generations} generations with several experts: the pool broke it "
        f"{found.pool} times, the network {found.network} times{shortened * (found.shortened > 0)}"
    )
