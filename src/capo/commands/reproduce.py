"""capo reproduce."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from capo.config import STEPS, Config, UsageError, check_least

if TYPE_CHECKING:
    from rich.console import Console

    from capo.paper.launch import Cores
    from capo.paper.schedule import State
    from capo.paper.selection import Run, Selection
    from capo.paper.store import Store
    from capo.paper.tables import Results

OUT = Path("reproduce")
ALL = "all"
MOST_PRINTED = 3
"""Experiments whose tables are printed; the page has them all."""


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
    """Run the paper's experiments and show them beside its numbers.

    Example: capo reproduce main --envs Hopper-v4 --seeds 3

    Args:
        names: main, curves, compute, depth, fisher-epochs, correlation, waste, wall-clock, carry,
            width, clip, target-kl, warmup, attribution; or all.
        tier: full: the paper's runs; short: 2 seeds of 200k steps; smoke: tiny, to see it work.
        seeds: Seeds of everything; None: the paper's 8, 5 or 3.
        envs: Only these tasks.
        algos: Only these methods.
        steps: Environment steps a run; None: the paper's 1M, and 4M on Humanoid.
        preset: default: what we recommend; paper: the closest reading of the paper.
        jobs: Runs at a time, each with its share of the cores; None: one a core.
        out: The folder to write; what is done there already is not done again.
        dry_run: Only say what would be run, and about how long it would take.
        write_only: Only write tables and figures, from the runs there are.
    """
    from rich.console import Console

    from capo.paper.launch import places
    from capo.paper.store import Store

    if seeds is not None:
        check_least("--seeds", seeds)
    if jobs is not None:
        check_least("--jobs", jobs)
    named, whole, chosen = _chosen(names, tier, seeds, envs, algos, steps, preset)
    store, console = Store(out), Console(highlight=False, soft_wrap=True)
    store.check()
    at_once = places(jobs)
    runs = _runs(named, chosen)
    results = store.results()
    missing = [run for run in runs if run.name not in results]
    failed: dict[str, str] = {}
    code = 0
    if not write_only:
        _say_plan(console, runs, results)
        expected = _expected(console, store, missing, chosen, at_once, dry_run)
        if dry_run:
            return 0
        state = _train(console, store, missing, expected, at_once)
        results |= state.done
        failed, code = state.failed, 1 if state.failed else 0
        if state.stopping is not None:
            code = 128 + state.stopping
            left = len(state.waiting)
            console.print(f"stopped with {left} runs to do; the same command goes on")
    store.open()
    _write(console, store, named, whole, results, failed)
    return code


def _chosen(
    names: Sequence[str],
    tier: str,
    seeds: int | None,
    envs: tuple[str, ...],
    algos: tuple[str, ...],
    steps: int | None,
    preset: str,
) -> "tuple[list[str], Selection, Selection]":
    """The experiments, what tables show of them, and the part of it that is to be run."""
    from capo.methods import method_of
    from capo.paper.experiments import ENVS, EXPERIMENTS
    from capo.paper.selection import Selection

    known = ", ".join([*EXPERIMENTS, ALL])
    if not names:
        raise UsageError(f"name an experiment: {known}")
    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            raise UsageError(f"there is no experiment {name!r}; there are {known}")
    named = list(EXPERIMENTS) if ALL in names else list(dict.fromkeys(names))
    for env_id in envs:
        if env_id not in ENVS:
            raise UsageError(f"{env_id} is not one of the paper's tasks: {', '.join(ENVS)}")
    algos = tuple(algo.replace("_", "-") for algo in algos)
    for algo in algos:
        method_of(algo)
    if steps is not None:
        check_least("--steps", steps, Config("x").batch_size if tier != "smoke" else 1)
    whole = Selection.of_tier(tier).narrowed(steps=steps, preset=preset)
    if whole.brief:
        whole = whole.narrowed(envs=envs)
    return named, whole, whole.narrowed(envs=envs, algos=algos, seeds=seeds)


def _runs(named: list[str], chosen: "Selection") -> "list[Run]":
    """All that were asked for; a task that some of the experiments lack is left out of them."""
    from capo.paper.experiments import EXPERIMENTS
    from capo.paper.selection import runs_of

    if chosen.envs is None:
        return runs_of(named, chosen)
    about = [name for name in named if set(chosen.envs) & set(EXPERIMENTS[name].envs)]
    if not about:
        tasks = dict.fromkeys(env for name in named for env in EXPERIMENTS[name].envs)
        raise UsageError(f"{', '.join(named)} is about {', '.join(tasks)}")
    return runs_of(about, chosen)


def _say_plan(console: "Console", runs: "list[Run]", results: "Results") -> None:
    """A line for each configuration: its seeds, and how many of them are done."""
    from capo.format import aligned, count

    cells: dict[str, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.name.rpartition("__")[0], []).append(run)
    lines = [("run", "seeds", "done")]
    for cell, found in cells.items():
        done = sum(run.name in results for run in found)
        lines.append((cell.replace("__", " "), str(len(found)), str(done)))
    for line in aligned(lines, right=(1, 2)):
        console.print(line, markup=False)
    done = sum(run.name in results for run in runs)
    console.print(f"{count(len(runs), 'run')}, {done} of them done")


def _expected(
    console: "Console",
    store: "Store",
    missing: "list[Run]",
    chosen: "Selection",
    at_once: "list[Cores]",
    dry_run: bool,
) -> dict[str, float]:
    """Seconds that each run will take; nothing for trials, which take no time to speak of."""
    from capo.format import clock, count
    from capo.paper.estimate import speeds

    if not missing or not chosen.as_published:
        return {}
    tasks = len({run.config.env_id for run in missing})
    with console.status(f"measuring this machine on {count(tasks, 'task')}"):
        if not dry_run:
            store.open()
        file = None if dry_run else store.out / "speed.json"
        found = speeds(file, missing, at_once)
    expected = {run.name: found[run.config.env_id].of(run.config) for run in missing}
    total = sum(expected.values()) / len(at_once)
    cores = count(len(at_once[0]) or 1, "core")
    console.print(
        f"about {clock(total)} for the other {len(missing)}: "
        f"{len(at_once)} at a time with {cores} each"
    )
    return expected


def _train(
    console: "Console",
    store: "Store",
    missing: "list[Run]",
    expected: dict[str, float],
    at_once: "list[Cores]",
) -> "State":
    from capo.paper.display import Display
    from capo.paper.schedule import work_off

    store.open()
    with Display(console, store, expected, len(at_once)).running() as display:
        return work_off(store, missing, at_once, display)


def _write(
    console: "Console",
    store: "Store",
    named: list[str],
    whole: "Selection",
    results: "Results",
    failed: dict[str, str],
) -> None:
    """Everything that there are runs of, and what was asked for, run or not."""
    from capo.paper.experiments import EXPERIMENTS
    from capo.paper.gathering import tables_of
    from capo.paper.page import write
    from capo.paper.tables import progress, to_text

    shown = [
        name
        for name, experiment in EXPERIMENTS.items()
        if name in named or progress(experiment, whole, results).begun
    ]
    command = shlex.join(["capo", *sys.argv[1:]])
    write(store.out, shown, whole, results, failed, command)
    for experiment in (EXPERIMENTS[name] for name in named[:MOST_PRINTED]):
        for made in tables_of(experiment, whole, results):
            console.print("\n".join(["", *to_text(made)]), markup=False)
    console.print()
    for name, why in failed.items():
        console.print(f"failed: {name}: {why}", markup=False)
    console.print(f"written: {store.out}/index.html, and NAME.md, NAME.csv, NAME.png beside it")
