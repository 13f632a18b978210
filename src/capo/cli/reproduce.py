"""capo reproduce."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro

from capo.config import STEPS, Config
from capo.errors import UsageError, check_least

if TYPE_CHECKING:
    from rich.console import Console

    from capo.paper.launch import Cores
    from capo.paper.matching import Results
    from capo.paper.schedule import ScheduleState
    from capo.paper.selection import Run, Selection
    from capo.paper.store import Store

OUT = Path("reproduce")
ALL = "all"
MOST_PRINTED = 3
"""Experiments whose tables are printed; the page has all."""


def reproduce(
    names: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="NAME…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    tier: Literal["smoke", "short", "full"] = "full",
    seeds: int | None = None,
    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV…")] = (),
    algos: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ALGO…")] = (),
    steps: Annotated[int | None, STEPS] = None,
    preset: Literal["default", "paper"] = "default",
    jobs: int | None = None,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = OUT,
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    write_only: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Run the paper's experiments and compare them with its numbers.

    Example: capo reproduce main --envs Hopper-v4 --seeds 3

    Args:
        names: main, curves, compute, depth, fisher-epochs, correlation, waste, wall-clock, carry,
            width, clip, target-kl, warmup, attribution; or all of these. Also search: settings
            in which several experts pay.
        tier: full: the paper's runs; short: 2 seeds of 200k steps; smoke: tiny runs, as a test.
        seeds: Seeds of each variant; None: the paper's 8, 5 or 3.
        envs: Only these tasks.
        algos: Only these methods.
        steps: Environment steps of a run; None: the paper's 1M, and 4M on Humanoid.
        preset: default: our recommendation; paper: the closest reading of the paper.
        jobs: Simultaneous runs, each with its share of the cores; None: one for each core.
        out: Output folder; runs that are finished there are not trained again.
        dry_run: Only print the runs and their estimated time.
        write_only: Only write tables and figures, from the finished runs.
    """
    from capo.paper.store import Store

    request = _request(names, tier, seeds, envs, algos, steps, preset)
    if jobs is not None:
        check_least("jobs", jobs)
    store = Store(out)
    store.check()
    return _reproduce(request, store, jobs, dry_run, write_only)


class Request(NamedTuple):
    """What was asked for."""

    names: list[str]
    """Experiments."""
    runs: "list[Run]"
    """Runs to train."""
    shown: "Selection"
    """What the tables show: more than the runs to train, since other runs may be finished."""


def _request(
    names: Sequence[str],
    tier: str,
    seeds: int | None,
    envs: tuple[str, ...],
    algos: tuple[str, ...],
    steps: int | None,
    preset: str,
) -> Request:
    """Checks the arguments and collects the runs."""
    from capo.methods import method_of
    from capo.paper.experiments import EXPERIMENTS, OF_THE_PAPER
    from capo.paper.selection import Selection
    from capo.paper.tasks import ENVS

    known = ", ".join([*EXPERIMENTS, ALL])
    if not names:
        raise UsageError(f"name an experiment: {known}")
    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            raise UsageError(f"there is no experiment {name!r}; there are {known}")
    if ALL in names:
        names = [*OF_THE_PAPER, *names]
    names = [name for name in dict.fromkeys(names) if name != ALL]
    for env_id in envs:
        if env_id not in ENVS:
            raise UsageError(f"{env_id} is not one of the paper's tasks: {', '.join(ENVS)}")
    algos = tuple(algo.replace("_", "-") for algo in algos)
    for algo in algos:
        method_of(algo)
    if seeds is not None:
        check_least("seeds", seeds)
    if steps is not None:
        check_least("steps", steps, Config("x").batch_size if tier != "smoke" else 1)
    shown = Selection.of_tier(tier).narrowed(steps=steps, preset=preset)
    if shown.reduced:
        shown = shown.narrowed(envs=envs)
    return Request(names, _runs(names, shown.narrowed(envs=envs, algos=algos, seeds=seeds)), shown)


def _runs(names: list[str], selection: "Selection") -> "list[Run]":
    """The selected runs of the experiments that have one of the selected tasks."""
    from capo.paper.experiments import EXPERIMENTS
    from capo.paper.selection import runs_of

    if selection.envs is None:
        return runs_of(names, selection)
    having = [name for name in names if set(selection.envs) & set(EXPERIMENTS[name].envs)]
    if not having:
        tasks = dict.fromkeys(env for name in names for env in EXPERIMENTS[name].envs)
        raise UsageError(f"{', '.join(names)} has only the tasks {', '.join(tasks)}")
    return runs_of(having, selection)


def _reproduce(
    request: Request, store: "Store", jobs: int | None, dry_run: bool, write_only: bool
) -> int:
    """Trains the missing runs and writes the results; the exit code."""
    from rich.console import Console

    from capo.paper.launch import core_sets

    console, cores = Console(highlight=False, soft_wrap=True), core_sets(jobs)
    results = store.results()
    failed: dict[str, str] = {}
    code = 0
    if not write_only:
        _print_plan(console, request.runs, results)
        missing = [run for run in request.runs if run.key not in results]
        timed = missing and not request.shown.sizes
        expected = _estimate(console, store, missing, cores, dry_run) if timed else {}
        if dry_run:
            return 0
        state = _train(console, store, missing, expected, cores)
        results |= state.done
        failed, code = state.failed, 1 if state.failed else 0
        if state.signal is not None:
            code = 128 + state.signal
            left = len(state.waiting)
            console.print(f"stopped with {left} runs to do; the same command continues")
    store.create()
    _write(console, store, request, results, failed)
    return code


def _print_plan(console: "Console", runs: "list[Run]", results: "Results") -> None:
    """Prints a line for each configuration: the numbers of its seeds and of finished ones."""
    from capo.report.format import aligned, count

    seeds: dict[str, list[Run]] = {}
    for run in runs:
        seeds.setdefault(run.label, []).append(run)
    lines = [("run", "seeds", "done")]
    for label, found in seeds.items():
        done = sum(run.key in results for run in found)
        lines.append((label.replace("__", " "), str(len(found)), str(done)))
    for line in aligned(lines, right=(1, 2)):
        console.print(line, markup=False)
    done = sum(run.key in results for run in runs)
    console.print(f"{count(len(runs), 'run')}, {done} of them done")


def _estimate(
    console: "Console",
    store: "Store",
    missing: "list[Run]",
    core_sets: "list[Cores]",
    dry_run: bool,
) -> dict[str, float]:
    """Measures this machine and prints the expected time; the seconds of each run by its name."""
    from capo.paper.estimate import measure_speeds
    from capo.report.format import clock, count

    tasks = len({run.config.env_id for run in missing})
    with console.status(f"measuring the speed of this machine on {count(tasks, 'task')}"):
        if not dry_run:
            store.create()
        file = None if dry_run else store.out / "speed.json"
        found = measure_speeds(file, missing, core_sets)
    expected = {run.name: found[run.config.env_id].seconds(run.config) for run in missing}
    total = sum(expected.values()) / len(core_sets)
    cores = count(len(core_sets[0]) or 1, "core")
    console.print(
        f"about {clock(total)} for the other {len(missing)}: "
        f"{len(core_sets)} at a time with {cores} each"
    )
    return expected


def _train(
    console: "Console",
    store: "Store",
    missing: "list[Run]",
    expected: dict[str, float],
    core_sets: "list[Cores]",
) -> "ScheduleState":
    from capo.paper.monitor import Monitor
    from capo.paper.schedule import train_all

    store.create()
    with Monitor(console, store, expected, len(core_sets)).running() as monitor:
        return train_all(store, missing, core_sets, monitor)


def _write(
    console: "Console",
    store: "Store",
    request: Request,
    results: "Results",
    failed: dict[str, str],
) -> None:
    """Writes the requested experiments and all others with finished runs; prints some tables."""
    from capo.paper.experiments import EXPERIMENTS
    from capo.paper.matching import count_runs
    from capo.paper.page import write
    from capo.paper.reports import build_tables
    from capo.paper.table_formats import to_text

    shown = [
        name
        for name, experiment in EXPERIMENTS.items()
        if name in request.names or count_runs(experiment, request.shown, results).begun
    ]
    command = shlex.join(["capo", *sys.argv[1:]])
    write(store.out, shown, request.shown, results, failed, command)
    for experiment in (EXPERIMENTS[name] for name in request.names[:MOST_PRINTED]):
        for made in build_tables(experiment, request.shown, results):
            console.print("\n".join(["", *to_text(made)]), markup=False)
    console.print()
    for name, why in failed.items():
        console.print(f"failed: {name}: {why}", markup=False)
    console.print(f"written: {store.out}/index.html, and NAME.md, NAME.csv, NAME.png beside it")
