"""Compares the speed of capo with other libraries, and measures the parts of a generation.

python -m benchmarks.speed                      run the missing measurements, then write
python -m benchmarks.speed --only main startup  only these parts
python -m benchmarks.speed --again              also repeat existing measurements
python -m benchmarks.speed --write-only         only write, from earlier measurements
python -m benchmarks.speed --try                a short trial that writes nothing

Writes results/speed (measurements, tables, picture) and the tables of docs/speed.md.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.documents import DOCS, RESULTS, ROOT, fill_section
from benchmarks.speed import cases, tables, targets
from benchmarks.speed.cases import Comparison, Effort
from benchmarks.speed.driver import Timings, time_in_turns, time_separately
from benchmarks.speed.measurements import Measurements, load, save, stamp, torch_threads
from benchmarks.speed.picture import draw
from benchmarks.speed.startup import startup
from capo.core.devices import available_cores

MEASUREMENTS, PAGE = RESULTS / "speed", DOCS / "speed.md"
LOGS = ROOT / "runs" / "speed"
TRIAL = LOGS / "trial"
PARTS = (
    "threads", "main", "paired", "breakdown", "startup", "memory", "width", "envs", "batch",
    "hidden",
)  # fmt: skip
SHORT = Effort(
    cases.TASKS[:1], min_rounds=1, max_rounds=1, generations=1, warmup=1, memory=(2, 3),
    startup_rounds=1, paired_rounds=2,
)  # fmt: skip
SECTIONS = {
    "where": (tables.where, ""),
    "ratios": (targets.ratio_table, "Targets"),
    "others": (targets.other_table, ""),
    "main": (tables.main, "Time per generation"),
    "breakdown": (tables.breakdown, "Parts of a generation"),
    "startup": (tables.startup, "Startup"),
    "memory": (tables.memory, "Memory"),
    "width": (tables.width, "Number of experts"),
    "envs": (tables.envs, "Number of environments"),
    "batch": (tables.batch, "Batch size"),
    "hidden": (tables.hidden, "Network size"),
    "failures": (tables.failures, "Failures"),
}
"""Sections of docs/speed.md: the function that writes each, and its heading in tables.md."""

TARGETS = {"main": "ratios", "paired": "ratios", "startup": "others"}
"""The table of targets that a part contributes to."""


def jobs(part: str, effort: Effort, folder: Path) -> Iterator[tuple[str, Callable[[], Timings]]]:
    """The comparisons of a part, by name. `threads` comes first: the others use its result."""
    threads = torch_threads(load(folder))
    cores = available_cores()
    single = effort._replace(generations=1)
    rounds = effort.paired_rounds
    many = single._replace(min_rounds=rounds, max_rounds=rounds)
    comparisons: dict[str, Callable[[], list[Comparison]]] = {
        "threads": lambda: [cases.threads(cores)],
        "main": lambda: [cases.main(env, threads) for env in effort.tasks],
        "paired": lambda: [cases.paired(env) for env in effort.tasks],
        "breakdown": lambda: [cases.breakdown(env) for env in effort.tasks],
        "memory": lambda: [cases.memory(threads)],
        "width": lambda: [cases.width()],
        "envs": lambda: [cases.envs()],
        "batch": lambda: [cases.batch()],
        "hidden": lambda: [cases.hidden()],
    }
    if part == "startup":
        yield part, partial(startup, effort, LOGS, threads)
        return
    for comparison in comparisons[part]():
        if part == "memory":
            yield comparison.name, partial(time_separately, comparison, effort, LOGS)
        else:
            this = {"batch": single, "hidden": single, "paired": many}.get(part, effort)
            yield comparison.name, partial(time_in_turns, comparison, this, LOGS)


def measure(parts: list[str], effort: Effort, folder: Path, again: bool) -> None:
    """Runs the comparisons of these parts that this machine has not measured with these versions.

    An interrupted comparison starts over: its programs are only comparable in one session.
    """
    for each in (folder, LOGS):
        each.mkdir(parents=True, exist_ok=True)
    began, here = time.monotonic(), stamp()
    for number, part in enumerate(parts):
        for name, job in jobs(part, effort, folder):
            there = load(folder).get(name)
            if there and there["stamp"] == here and not again:
                print(f"{name}: already measured", flush=True)
                continue
            passed = (time.monotonic() - began) / 60
            print(f"{name} (part {number + 1} of {len(parts)}, minute {passed:.0f})", flush=True)
            save(folder, name, job())


def sections(measured: Measurements) -> dict[str, str]:
    """The text of each section of the page."""
    return {name: make(measured) for name, (make, _) in SECTIONS.items()}


def all_tables(texts: dict[str, str]) -> str:
    """The sections as a page of their own, without the explanations."""
    page = "# Speed\n\nWritten by `make bench`; [docs/speed.md](../../docs/speed.md) explains it."
    page += "\n\n![Time of the parts of a generation](speed.png)"
    for name, text in texts.items():
        heading = SECTIONS[name][1]
        page += f"\n\n## {heading}" if heading else ""
        page += f"\n\n{text}"
    return f"{page}\n"


def write(measured: Measurements) -> None:
    """Writes tables.md, speed.png and the sections of the page."""
    texts = sections(measured)
    (MEASUREMENTS / "tables.md").write_text(all_tables(texts))
    draw(MEASUREMENTS / "speed.png", measured)
    for name, text in texts.items():
        fill_section(PAGE, name, text)


def main() -> None:
    """Measures, then writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--write-only", action="store_true")
    parser.add_argument("--try", action="store_true", dest="short")
    arguments = parser.parse_args()
    folder, effort = (TRIAL, SHORT) if arguments.short else (MEASUREMENTS, Effort())
    parts = [part for part in PARTS if part in arguments.only]
    if not arguments.write_only:
        measure(parts, effort, folder, arguments.again)
    measured = load(folder)
    if not arguments.short:
        write(measured)
    shown = {"failures", *parts, *(TARGETS[part] for part in parts if part in TARGETS)}
    print("\n\n".join(text for name, text in sections(measured).items() if name in shown))


if __name__ == "__main__":
    main()
