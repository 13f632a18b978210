"""capo train."""

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.cli.arguments import SEEDS
from capo.config import Config
from capo.errors import UsageError
from capo.runs.options import Options

if TYPE_CHECKING:
    from capo.runs.folder import RunFolder
    from capo.runs.reporter import Reporter
    from capo.runs.resume import Resumed


def train(
    config: tyro.conf.OmitArgPrefixes[Config],
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None,
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    resume: Annotated[str | None, tyro.conf.arg(metavar="RUN|auto")] = None,
    override: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    replay: bool = True,
    seeds: Annotated[tuple[int, ...] | None, SEEDS] = None,
    jobs: int | None = None,
    run: tyro.conf.OmitArgPrefixes[Options] = Options(),  # noqa: B008 (frozen)
) -> int:
    """Train a policy, evaluate it and write a run folder.

    Example: capo train Hopper-v4 --algo capo -n 1M --seed 1

    Args:
        config: The configuration of the run.
        config_file: Take the settings from a config.json; flags beside it go before it.
        run_dir: The folder to write; default runs/{env}__{algo}__{seed}__{time}.
        resume: Continue a run folder or one of its checkpoints; auto: continue if there is one.
        override: Allow a resumed run to continue with other arguments.
        replay: Restore the environments of a resumed run by replay; no: new episodes.
        seeds: Train these seeds as capo sweep does: 5 are the seeds 1 to 5; also 3-7, or 1,4,9.
        jobs: Simultaneous runs of --seeds; None: one for each core.
        run: How the run is driven and recorded.
    """
    from capo.errors import FinishedError
    from capo.runs.progress import Terminal

    if seeds is not None:
        if resume is not None:
            raise UsageError("--seeds goes on by the same command; leave --resume out")
        return _train_seeds(config, seeds, jobs, run_dir, run)
    if jobs is not None:
        raise UsageError("--jobs is for several runs; add --seeds, such as --seeds 5")
    reporter, resumed = Terminal(messages=True), None
    if resume is not None:
        try:
            resumed = _reopened(config, resume, run_dir, override, reporter)
        except FinishedError as done:
            if resume != "auto":
                raise
            reporter.note(str(done))
            return 0
    # Parsing has taken the settings of the file, and imported the module of a task that was typed.
    typed = resumed is None and config_file is None
    return _run(config, run_dir, run, replay, reporter, resumed, typed)


def _train_seeds(
    config: Config, seeds: tuple[int, ...], jobs: int | None, out: Path | None, options: Options
) -> int:
    """Trains a run for each seed, in one folder."""
    from capo.cli.resuming import import_named
    from capo.cli.sweep import train_runs
    from capo.sweeps.grid import seed_runs

    import_named(config.env_id, config.wrappers, config.network)
    runs = seed_runs(config, seeds)
    return train_runs(runs, out or Path("sweeps", runs[0].label), jobs, options.words(), False)


def _run(
    config: Config,
    run_dir: Path | None,
    options: Options,
    replay: bool,
    reporter: "Reporter",
    resumed: "Resumed | None",
    typed: bool,
) -> int:
    """Runs the session; returns the exit code. Imports the module of a task that was `typed`."""
    from capo.cli.resuming import import_named
    from capo.envs.adapters import config_source
    from capo.learner import Learner
    from capo.methods import settle
    from capo.runs.folder import default_folder
    from capo.runs.session import Session

    last = None
    if resumed is not None:
        config, last = resumed.checkpoint.config, resumed.checkpoint.step
    folder = run_dir or default_folder(config)
    with contextlib.closing(Learner(settle(config), config_source(config), last)) as learner:
        session = Session(
            learner, folder, options, reporter, resumed, replay=replay, owns_process=True
        )
        if typed:
            import_named(config.env_id, config.wrappers, config.network)
        number = session.run()
    assert session.folder is not None
    _report_folder(session.folder, number is None, reporter)
    return 0 if number is None else 128 + number


def _report_folder(run: "RunFolder", finished: bool, reporter: "Reporter") -> None:
    """Names the folder and a next command."""
    from capo.envs.wrapping import needs_naming

    where, task = shlex.quote(str(run.path)), run.config.env_id
    # The modules of a task and of wrappers have to be typed: files do not decide what is imported.
    typed = shlex.quote(task) if ":" in task else ""
    wrappers = run.config.wrappers if needs_naming(run.config.wrappers) else ()
    again = f" --network {run.config.network}" if ":" in run.config.network else ""
    again += "".join(f" --wrapper {shlex.quote(each)}" for each in wrappers)
    reporter.note(f"run folder: {where}/ (metrics.jsonl, model.safetensors, summary.png)")
    if finished:
        named = typed and f" --env {typed}"
        reporter.note(f"next:       capo eval {where} --episodes 100{named}{again}")
    else:
        reporter.note(f"next:       capo train {typed and typed + ' '}--resume {where}{again}")


def _reopened(
    config: Config, resume: str, run_dir: Path | None, override: bool, reporter: "Reporter"
) -> "Resumed | None":
    """The run to continue; None for `auto` without one."""
    from capo.runs.resume import reopen, reopen_newest, run_folder_of

    if resume == "auto":
        resumed = reopen_newest(run_dir, config, override, reporter.warn)
        if resumed is None:
            reporter.note("there is no run to resume; a new one begins")
        return resumed
    if run_dir is not None and run_dir.resolve() != run_folder_of(Path(resume)).resolve():
        raise UsageError(f"--resume {resume} writes there, not into --run-dir {run_dir}")
    return reopen(Path(resume), config, override, None)
