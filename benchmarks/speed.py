"""How fast capo is beside the programs that people use, and where its time goes.

python benchmarks/speed.py                    measure what is missing, then write
python benchmarks/speed.py --only main start  only these parts
python benchmarks/speed.py --again            measure also what there is already
python benchmarks/speed.py --write-only       only write, from what was measured
python benchmarks/speed.py --try              a short look, of which nothing is written

Writes benchmarks/results.md, docs/speed.md and docs/speed.png.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from capo.envs import available_cores
from contest import cases, tables, targets
from contest.cases import Heat, Size
from contest.driver import Found, in_turns, one_by_one
from contest.measured import Measured, keep, kept, stamp, torch_threads
from contest.picture import draw
from contest.start import start
from marks import ROOT, fill

KEPT, TRIED = ROOT / "runs" / "speed", ROOT / "runs" / "speed" / "try"
RESULTS, PAGE = ROOT / "benchmarks" / "results.md", ROOT / "docs" / "speed.md"
PICTURE = ROOT / "docs" / "speed.png"
PARTS = ("threads", "main", "close", "split", "start", "memory", "width", "envs", "batch", "hidden")
SHORT = Size(
    cases.TASKS[:1], least=1, most=1, generations=1, warmup=1, memory=(2, 3), starts=1, rounds=2
)
HEADINGS = {
    "where": (tables.where, ""),
    "ratios": (targets.ratio_table, "Targets"),
    "others": (targets.other_table, ""),
    "main": (tables.main, "A generation"),
    "split": (tables.split, "Where it goes"),
    "start": (tables.start, "Starting"),
    "memory": (tables.memory, "Memory"),
    "width": (tables.width, "More experts"),
    "envs": (tables.envs, "More environments"),
    "batch": (tables.batch, "Larger batches"),
    "hidden": (tables.hidden, "Wider networks"),
    "failures": (tables.failures, "Not run"),
}
"""The marks of the page, what is written between them, and the heading in the results."""

JUDGED = {"main": "ratios", "close": "ratios", "start": "others"}
"""The table of targets that a part has some in."""


def jobs(part: str, size: Size, folder: Path) -> Iterator[tuple[str, Callable[[], Found]]]:
    """The heats of a part, by name; threads are measured before what depends on them."""
    threads = torch_threads(kept(folder))
    cores = available_cores()
    long = size._replace(generations=1)
    many = long._replace(least=size.rounds, most=size.rounds)
    heats: dict[str, Callable[[], list[Heat]]] = {
        "threads": lambda: [cases.threads(cores)],
        "main": lambda: [cases.main(env, threads) for env in size.tasks],
        "close": lambda: [cases.close(env) for env in size.tasks],
        "split": lambda: [cases.split(env) for env in size.tasks],
        "memory": lambda: [cases.memory(threads)],
        "width": lambda: [cases.width()],
        "envs": lambda: [cases.envs()],
        "batch": lambda: [cases.batch()],
        "hidden": lambda: [cases.hidden()],
    }
    if part == "start":
        yield part, partial(start, size, folder, threads)
        return
    for heat in heats[part]():
        if part == "memory":
            yield heat.name, partial(one_by_one, heat, size, folder)
        else:
            this = {"batch": long, "hidden": long, "close": many}.get(part, size)
            yield heat.name, partial(in_turns, heat, this, folder)


def measure(parts: list[str], size: Size, folder: Path, again: bool) -> None:
    """Every heat of these parts that was not measured on this machine with these versions.

    A heat that is interrupted is measured anew: its contestants have to meet in one sitting.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began, here = time.monotonic(), stamp()
    for number, part in enumerate(parts):
        for name, job in jobs(part, size, folder):
            there = kept(folder).get(name)
            if there and there["stamp"] == here and not again:
                print(f"{name}: there already", flush=True)
                continue
            passed = (time.monotonic() - began) / 60
            print(f"{name} (part {number + 1} of {len(parts)}, minute {passed:.0f})", flush=True)
            keep(folder, name, job())


def sections(measured: Measured) -> dict[str, str]:
    """What stands between the marks of the page."""
    return {mark: make(measured) for mark, (make, _) in HEADINGS.items()}


def results(found: dict[str, str]) -> str:
    """The same as a page of its own, without the explanations."""
    text = "# Speed\n\nWritten by `make bench`; [docs/speed.md](../docs/speed.md) explains it."
    text += "\n\n![Where a generation goes](../docs/speed.png)"
    for mark, section in found.items():
        heading = HEADINGS[mark][1]
        text += f"\n\n## {heading}" if heading else ""
        text += f"\n\n{section}"
    return f"{text}\n"


def write(measured: Measured) -> None:
    """The results, the page and the picture."""
    found = sections(measured)
    RESULTS.write_text(results(found))
    for mark, text in found.items():
        fill(PAGE, mark, text)
    draw(PICTURE, measured)


def main() -> None:
    """Measures, then writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--write-only", action="store_true")
    parser.add_argument("--try", action="store_true", dest="short")
    asked = parser.parse_args()
    folder, size = (TRIED, SHORT) if asked.short else (KEPT, Size())
    parts = [part for part in PARTS if part in asked.only]
    if not asked.write_only:
        measure(parts, size, folder, asked.again)
    found = kept(folder)
    if not asked.short:
        write(found)
    shown = {"failures", *parts, *(JUDGED[part] for part in parts if part in JUDGED)}
    print("\n\n".join(text for mark, text in sections(found).items() if mark in shown))


if __name__ == "__main__":
    main()
