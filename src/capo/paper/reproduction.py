"""A reproduction: which runs are asked for, training the missing ones, writing the results."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console

from capo.config import Config
from capo.errors import UsageError, check_least
from capo.methods import method_of
from capo.paper.experiments import EXPERIMENTS, OF_THE_PAPER
from capo.paper.page import write
from capo.paper.reports import build_tables
from capo.paper.tasks import ENVS, of_tier
from capo.sweeps.formats import to_text
from capo.sweeps.launchers import Local
from capo.sweeps.results import Results
from capo.sweeps.selection import Run, Selection, runs_of
from capo.sweeps.store import Store
from capo.sweeps.working import expected_seconds, print_plan, train_missing

ALL = "all"
MOST_PRINTED = 3
"""Experiments whose tables are printed; the page has all."""


class Request(NamedTuple):
    """What was asked for."""

    names: list[str]
    """Experiments."""
    runs: list[Run]
    """Runs to train."""
    shown: Selection
    """What the tables show: more than the runs to train, since other runs may be finished."""


def request(
    names: Sequence[str],
    tier: str,
    seeds: int | None,
    envs: tuple[str, ...],
    algos: tuple[str, ...],
    steps: int | None,
    preset: str,
) -> Request:
    """Checks the arguments and collects the runs."""
    names = _known(names)
    for env_id in envs:
        if env_id not in ENVS:
            raise UsageError(f"{env_id} is not one of the paper's tasks: {', '.join(ENVS)}")
    algos = tuple(algo.replace("_", "-") for algo in algos)
    for algo in algos:
        method_of(algo)
    if seeds is not None:
        check_least("seeds", seeds)
    if steps is not None:
        least = 1 if tier == "smoke" else Config("x", preset="corrected").batch_size
        check_least("steps", steps, least)
    shown = of_tier(tier).narrowed(steps=steps, preset=preset)
    if shown.only_env:
        shown = shown.narrowed(envs=envs)
    trained = shown.narrowed(envs=envs, algos=algos, seeds=seeds)
    return Request(names=names, runs=_runs(names, trained), shown=shown)


def _known(names: Sequence[str]) -> list[str]:
    """The experiments, with those that `all` means."""
    known = ", ".join([*EXPERIMENTS, ALL])
    if not names:
        raise UsageError(f"name an experiment: {known}")
    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            raise UsageError(f"there is no experiment {name!r}; there are {known}")
    whole = [*OF_THE_PAPER, *names] if ALL in names else names
    return [name for name in dict.fromkeys(whole) if name != ALL]


def _runs(names: list[str], selection: Selection) -> list[Run]:
    """The selected runs of the experiments that have one of the selected tasks."""
    experiments = [EXPERIMENTS[name] for name in names]
    if selection.envs is None:
        return runs_of(experiments, selection)
    having = [each for each in experiments if set(selection.envs) & set(each.envs)]
    if not having:
        tasks = dict.fromkeys(env for each in experiments for env in each.envs)
        raise UsageError(f"{', '.join(names)} has only the tasks {', '.join(tasks)}")
    return runs_of(having, selection)


def reproduce(
    asked: Request, store: Store, launcher: Local, dry_run: bool, write_only: bool
) -> int:
    """Trains the missing runs and writes the results; the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    done, failed, code = store.results(), {}, 0
    if not write_only:
        print_plan(console, asked.runs, done)
        missing = [run for run in asked.runs if run.key not in done]
        if not dry_run:
            store.create()
        expected = {}
        if missing and not asked.shown.sizes:
            expected = expected_seconds(console, store, missing, launcher, keep=not dry_run)
        if dry_run:
            return 0
        state = train_missing(console, store, missing, launcher, expected)
        done |= state.done
        failed, code = state.failed, 1 if state.failed else 0
        if state.signal is not None:
            code = 128 + state.signal
    store.create()
    _write(console, store, asked.names, Results(done, asked.shown), failed)
    return code


def _write(
    console: Console,
    store: Store,
    names: Sequence[str],
    results: Results,
    failed: Mapping[str, str],
) -> None:
    """Writes the requested experiments and all others with finished runs; prints some tables."""
    shown = [
        name
        for name, experiment in EXPERIMENTS.items()
        if name in names or results.count(experiment).begun
    ]
    write(store.out, shown, results, failed, shlex.join(["capo", *sys.argv[1:]]))
    for experiment in (EXPERIMENTS[name] for name in names[:MOST_PRINTED]):
        for table in build_tables(experiment, results):
            console.print("\n".join(["", *to_text(table)]), markup=False)
    console.print()
    for name, why in failed.items():
        console.print(f"failed: {name}: {why}", markup=False)
    console.print(f"written: {store.out}/index.html, and NAME.md, NAME.csv, NAME.png beside it")
