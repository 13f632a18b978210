"""The tables: medians, with quartiles in brackets."""

from collections.abc import Sequence

import numpy as np

from benchmarks.documents import NOT_RUN
from benchmarks.speed import cases
from benchmarks.speed.cases import (
    CONTRIB_TRPO,
    DETAILED,
    SB3,
    SB3_SUBPROC,
    SBX,
    SCALED_ALGOS,
    TASKS,
    UPDATE,
    Effort,
)
from benchmarks.speed.measurements import Measurements, errors, median, samples, torch_threads
from benchmarks.speed.startup import COLD, HELP, IMPORT, PYTHON, TRAIN, WARM
from capo.methods import METHODS
from capo.report.format import rounded

COLLECT = ("physics", "acting")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    first, *others = (f"| {' | '.join(line)} |" for line in (header, *rows))
    return "\n".join([first, "|---|" + "---:|" * (len(header) - 1), *others])


def cell(measured: Measurements, comparison: str, name: str, key: str = "seconds") -> str:
    """Median and quartiles, such as 0.412 (0.405–0.431)."""
    values = samples(measured, comparison, name, key)
    if not len(values):
        return NOT_RUN
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{rounded(middle)} ({rounded(low, middle)}–{rounded(high, middle)})"


def where(measured: Measurements) -> str:
    """The machine, the versions, the dates, and the number of PyTorch threads."""
    if not measured:
        return f"{NOT_RUN.capitalize()} yet."
    stamps = [of["stamp"] for of in measured.values()]
    dates = sorted({of["date"] for of in measured.values()})
    newest = max(measured.values(), key=lambda of: of["date"])["stamp"]
    versions = ", ".join(f"{n} {v}" for n, v in newest["versions"].items() if v)
    lines = [
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {newest['cores']} cores "
        f"({newest['cpu']}, {newest['system']}) with {versions}. No GPU was measured. "
        f"PyTorch threads: {torch_threads(measured)}, the fastest setting for SB3's PPO "
        f"({_threads(measured)})."
    ]
    if any(stamp != newest for stamp in stamps):
        lines.append("Some parts are from another machine or other versions; measure them again.")
    return "\n\n".join(lines)


def _threads(measured: Measurements) -> str:
    found = measured.get("threads", {}).get("found", {})
    text = [f"{cell(measured, 'threads', n)} s per generation with {n}" for n in found]
    return ", ".join(text) or NOT_RUN


def main(measured: Measurements) -> str:
    """Seconds per generation of all programs."""
    names = [
        *(SB3, SB3_SUBPROC, SBX, CONTRIB_TRPO),
        *METHODS,
        *(algo + cases.ON_GYMNASIUM for algo in ("ppo", "capo")),
        *(algo + cases.AS_RUN for algo in DETAILED),
        *(cases.PHYSICS, cases.PHYSICS_GYMNASIUM),
    ]
    rows = [
        [_ours(name), *(cell(measured, f"main-{env}", name) for env in TASKS)] for name in names
    ]
    return table(["seconds per generation", *TASKS], rows)


def _ours(name: str) -> str:
    """The name, with a method of capo set as code."""
    first, space, rest = name.partition(" ")
    return f"`{first}`{space}{rest}" if first in METHODS else name


def breakdown(measured: Measurements) -> str:
    """Milliseconds of each part, the sum of the update's parts, and the whole update."""
    rows = []
    for env in TASKS:
        for algo in DETAILED:
            comparison = f"breakdown-{env}"
            parts = [median(measured, comparison, algo, part) for part in UPDATE]
            found = [part for part in parts if part is not None]
            whole = (sum(found) if found else None, median(measured, comparison, algo, "update"))
            collect = [median(measured, comparison, algo, part) for part in COLLECT]
            cells = [_ms(seconds) for seconds in (*collect, *parts, *whole)]
            cells += [
                _ms(median(measured, f"main-{env}", algo + cases.AS_RUN, key))
                for key in ("diagnosis", "logging")
            ]
            rows.append([f"{env} `{algo}`", *cells])
    return table(
        ["ms per generation", *COLLECT, *UPDATE, "update, sum of parts", "update, whole",
         "diagnosis", "logging"],
        rows,
    )  # fmt: skip


def _ms(seconds: float | None) -> str:
    return NOT_RUN if seconds is None else f"{1000 * seconds:.0f}" if seconds else "–"


def startup(measured: Measurements) -> str:
    """Seconds until the help screen, an import, the first generation."""
    rows = [[name, cell(measured, "startup", name)] for name in (PYTHON, IMPORT, HELP)]
    first = (TRAIN + COLD, TRAIN + WARM, SBX + COLD, SBX + WARM, SB3)
    rows += [[f"{name}: first generation", cell(measured, "startup", name)] for name in first]
    return table(["", "seconds"], rows)


def memory(measured: Measurements) -> str:
    """Peak resident memory, and private memory early and late."""
    early, late = Effort().memory
    rows = []
    for name, found in measured.get("memory", {}).get("found", {}).items():
        private = found.get("private")
        cells = [NOT_RUN] * 3
        if private:
            # The list begins after the warmup, whose generations are included in the numbers.
            at = len(private) - 1 - (late - early)
            cells = [f"{mb:.0f}" for mb in (found["peak"], private[max(at, 0)], private[-1])]
        rows.append([_ours(name), *cells])
    return table(
        ["MB", "peak, resident", f"private, generation {early}", f"private, generation {late}"],
        rows or [[NOT_RUN] * 4],
    )


def width(measured: Measurements) -> str:
    """More experts, relative to plain PPO."""
    rows = [["`ppo`", cell(measured, "width", "ppo"), "", "", ""]]
    for k in cases.WIDTHS:
        cells = []
        for name in (f"capo-avg {k}", f"capo {k}"):
            cells += [cell(measured, "width", name), _over(measured, name)]
        rows.append([f"K = {k}", *cells])
    over = "relative to `ppo`"
    return table(["seconds per generation", "`capo-avg`", over, "`capo`", over], rows)


def _over(measured: Measurements, name: str) -> str:
    found, ppo = (median(measured, "width", one) for one in (name, "ppo"))
    return f"{found / ppo:.2f}" if found and ppo else NOT_RUN


def envs(measured: Measurements) -> str:
    """More environments, fewer steps each."""
    rows = [
        [f"{n} × {cases.ENVS * cases.STEPS // n}", *_pair(measured, "envs", SCALED_ALGOS, n)]
        for n in cases.ENV_COUNTS
    ]
    return table(["environments × steps", *(f"`{algo}`" for algo in SCALED_ALGOS)], rows)


def batch(measured: Measurements) -> str:
    """Larger batches."""
    rows = [[f"{n:,}", *_pair(measured, "batch", SCALED_ALGOS, n)] for n in cases.BATCHES]
    return table(["samples per batch", *(f"`{algo}`" for algo in SCALED_ALGOS)], rows)


def hidden(measured: Measurements) -> str:
    """Wider networks."""
    rows = [[f"{n}, {n}", *_pair(measured, "hidden", SCALED_ALGOS, n)] for n in cases.HIDDEN]
    return table(["hidden layers", *(f"`{algo}`" for algo in SCALED_ALGOS)], rows)


def _pair(measured: Measurements, comparison: str, algos: Sequence[str], size: int) -> list[str]:
    return [cell(measured, comparison, f"{algo} {size}") for algo in algos]


def failures(measured: Measurements) -> str:
    """The programs that failed, and why."""
    found = errors(measured)
    return "\n".join(f"- {line}" for line in found) or "All programs ran."
