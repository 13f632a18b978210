"""The order of work on many runs: what is missing, how long it takes, training it."""

from collections.abc import Container, Mapping, Sequence

from rich.console import Console

from capo.report.format import aligned, clock, count
from capo.sweeps.estimate import measure_speeds
from capo.sweeps.keys import RunKey
from capo.sweeps.launchers import Local
from capo.sweeps.monitor import Monitor
from capo.sweeps.schedule import ScheduleState, train_all
from capo.sweeps.selection import Run
from capo.sweeps.store import Store


def print_plan(console: Console, runs: Sequence[Run], done: Container[RunKey]) -> None:
    """Prints a line for each configuration: the numbers of its seeds and of finished ones."""
    seeds: dict[str, list[Run]] = {}
    for run in runs:
        seeds.setdefault(run.label, []).append(run)
    lines = [("run", "seeds", "done")]
    for label, same in seeds.items():
        finished = sum(run.key in done for run in same)
        lines.append((label.replace("__", " "), str(len(same)), str(finished)))
    for line in aligned(lines, right=(1, 2)):
        console.print(line, markup=False)
    finished = sum(run.key in done for run in runs)
    console.print(f"{count(len(runs), 'run')}, {finished} of them done")


def expected_seconds(
    console: Console, store: Store, missing: Sequence[Run], launcher: Local, keep: bool
) -> dict[str, float]:
    """Measures this machine and prints the expected time; the seconds of each run by its name.

    With `keep` the measurements are kept in the folder.
    """
    tasks = len({run.config.env_id for run in missing})
    with console.status(f"measuring the speed of this machine on {count(tasks, 'task')}"):
        file = store.out / "speed.json" if keep else None
        speeds = measure_speeds(file, missing, launcher)
    expected = {run.name: speeds[run.config.env_id].seconds(run.config) for run in missing}
    total = sum(expected.values()) / launcher.places
    cores = count(len(launcher.core_sets[0]) or 1, "core")
    console.print(
        f"about {clock(total)} for the other {len(missing)}: "
        f"{launcher.places} at a time with {cores} each"
    )
    return expected


def train_missing(
    console: Console,
    store: Store,
    missing: Sequence[Run],
    launcher: Local,
    expected: Mapping[str, float],
) -> ScheduleState:
    """Trains the runs; says how to go on if a signal ended it."""
    with Monitor(console, expected, launcher.places).running() as monitor:
        state = train_all(store, missing, launcher, monitor)
    if state.signal is not None:
        left = len(state.waiting)
        console.print(f"stopped with {left} runs to do; the same command continues")
    return state
