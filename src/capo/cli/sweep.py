"""capo sweep."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from capo.cli.arguments import SEEDS
from capo.config import STEPS
from capo.errors import UsageError, check_least

if TYPE_CHECKING:
    from capo.sweeps.selection import Run


def sweep(
    envs: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="ENV…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    algo: tuple[str, ...] = ("capo",),
    seeds: Annotated[tuple[int, ...], SEEDS] = (1, 2, 3),
    values: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(name="set", metavar="NAME=V,V,…"),
    ] = (),
    steps: Annotated[int | None, STEPS, tyro.conf.arg(aliases=["-n"])] = None,
    preset: Literal["auto", "default", "corrected", "paper"] = "auto",
    jobs: int | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Train every combination of tasks, methods, settings and seeds.

    Example: capo sweep Hopper-v4 --algo capo ppo --seeds 5 --set clip=0.1,0.2

    Args:
        envs: Tasks.
        algo: Methods.
        seeds: 5 are the seeds 1 to 5; also 3-7, or 1,4,9.
        values: A setting and its values: gamma=0.99,0.999; with several, every combination.
        steps: Environment steps of each run; None: the zoo's, or a million.
        preset: As in capo train.
        jobs: Simultaneous runs, each with its share of the cores; None: one for each core.
        out: Folder of the runs; None: sweeps/ and the tasks and methods. The same command goes on.
        dry_run: Only list the runs.
    """
    from capo.cli.resuming import import_named
    from capo.methods import method_of
    from capo.sweeps.grid import grid_runs, parse_values

    if not envs:
        raise UsageError("name a task: capo sweep Hopper-v4")
    for env_id in envs:
        import_named(env_id, (), "")
    for each in algo:
        method_of(each.replace("_", "-"))
    fixed = {"preset": preset} | ({} if steps is None else {"total_steps": steps})
    runs = grid_runs(envs, algo, seeds, [parse_values(text) for text in values], **fixed)
    folder = out or Path("sweeps", f"{'-'.join(envs)}__{'-'.join(algo)}".replace("/", "-"))
    return train_runs(runs, folder, jobs, (), dry_run)


def train_runs(
    runs: "list[Run]", out: Path, jobs: int | None, words: tuple[str, ...], dry_run: bool
) -> int:
    """Trains what is missing of the runs, compares them and names the failed ones; exit code."""
    from rich.console import Console

    from capo.cli.compare import compare_runs
    from capo.sweeps.folder import SweepFolder
    from capo.sweeps.launchers import Local
    from capo.sweeps.monitor import Monitor
    from capo.sweeps.schedule import train_all
    from capo.sweeps.working import print_plan

    if jobs is not None:
        check_least("jobs", jobs)
    console = Console(highlight=False, soft_wrap=True)
    folder, launcher = SweepFolder(out, runs, words), Local(jobs)
    folder.check()
    done = folder.finished()
    print_plan(console, runs, done)
    if dry_run:
        return 0
    folder.create()
    missing = [run for run in runs if run.key not in done]
    weights = {run.name: float(run.config.total_steps) for run in missing}
    with Monitor(console, weights, launcher.places, measured=False).running() as monitor:
        state = train_all(folder, missing, launcher, monitor)
    if done or state.done:
        console.print()
        compare_runs((out,), out / "compare")
    for name, why in state.failed.items():
        console.print(f"failed: {name}: {why}", markup=False)
    if state.signal is not None:
        left = len(state.waiting)
        console.print(f"stopped with {left} runs to do; the same command continues")
        return 128 + state.signal
    return 1 if state.failed else 0
