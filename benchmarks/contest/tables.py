"""The tables of the results: medians, with the quartiles in brackets."""

from collections.abc import Sequence

import numpy as np

from capo.format import figure
from capo.methods import METHODS
from contest import cases
from contest.cases import CONTRIB_TRPO, SB3, SB3_SUBPROC, SBX, SCALED, TASKS, UPDATE, WHOLE, Size
from contest.measured import Measured, errors, median, samples, torch_threads
from contest.start import COLD, HELP, IMPORT, PYTHON, TRAIN, WARM
from marks import NOT_RUN

COLLECT = ("physics", "acting")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, with numbers to the right of the first column."""
    first, *others = (f"| {' | '.join(line)} |" for line in (header, *rows))
    return "\n".join([first, "|---|" + "---:|" * (len(header) - 1), *others])


def cell(measured: Measured, heat: str, name: str, key: str = "seconds") -> str:
    """0.412 (0.405–0.431)."""
    values = samples(measured, heat, name, key)
    if not len(values):
        return NOT_RUN
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{figure(middle)} ({figure(low, middle)}–{figure(high, middle)})"


def where(measured: Measured) -> str:
    """The machine, the versions, the dates, and the threads of PyTorch."""
    if not measured:
        return f"{NOT_RUN.capitalize()} yet."
    stamps = [of["stamp"] for of in measured.values()]
    dates = sorted({of["date"] for of in measured.values()})
    newest = max(measured.values(), key=lambda of: of["date"])["stamp"]
    versions = ", ".join(f"{n} {v}" for n, v in newest["versions"].items() if v)
    lines = [
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {newest['cores']} cores "
        f"({newest['cpu']}, {newest['system']}) with {versions}. No GPU was measured. "
        f"Threads of PyTorch: {torch_threads(measured)}, which suits SB3's PPO best here "
        f"({_threads(measured)})."
    ]
    if any(stamp != newest for stamp in stamps):
        lines.append("Some parts are from another machine or other versions; measure them again.")
    return "\n\n".join(lines)


def _threads(measured: Measured) -> str:
    found = measured.get("threads", {}).get("found", {})
    said = [f"{cell(measured, 'threads', n)} s a generation with {n}" for n in found]
    return ", ".join(said) or NOT_RUN


def main(measured: Measured) -> str:
    """Everyone's seconds a generation."""
    names = [
        *(SB3, SB3_SUBPROC, SBX, CONTRIB_TRPO),
        *METHODS,
        *(algo + cases.ON_GYMNASIUM for algo in ("ppo", "capo")),
        *(algo + cases.AS_RUN for algo in WHOLE),
        *(cases.PHYSICS, cases.PHYSICS_GYMNASIUM),
    ]
    rows = [
        [_ours(name), *(cell(measured, f"main-{env}", name) for env in TASKS)] for name in names
    ]
    return table(["seconds a generation", *TASKS], rows)


def _ours(name: str) -> str:
    """With the method's name, if it is one of ours, as code."""
    first, space, rest = name.partition(" ")
    return f"`{first}`{space}{rest}" if first in METHODS else name


def split(measured: Measured) -> str:
    """Milliseconds of each part; the whole call beside the sum of its parts."""
    rows = []
    for env in TASKS:
        for algo in WHOLE:
            heat = f"split-{env}"
            parts = [median(measured, heat, algo, part) for part in UPDATE]
            found = [part for part in parts if part is not None]
            whole = (sum(found) if found else None, median(measured, heat, algo, "update"))
            collect = [median(measured, heat, algo, part) for part in COLLECT]
            cells = [_ms(seconds) for seconds in (*collect, *parts, *whole)]
            cells += [
                _ms(median(measured, f"main-{env}", algo + cases.AS_RUN, key))
                for key in ("diagnosis", "logging")
            ]
            rows.append([f"{env} `{algo}`", *cells])
    return table(
        ["ms a generation", *COLLECT, *UPDATE, "sum of the update's parts", "the update, one call",
         "diagnosis", "logging"],
        rows,
    )  # fmt: skip


def _ms(seconds: float | None) -> str:
    return NOT_RUN if seconds is None else f"{1000 * seconds:.0f}" if seconds else "–"


def start(measured: Measured) -> str:
    """Seconds until something happens."""
    rows = [[name, cell(measured, "start", name)] for name in (PYTHON, IMPORT, HELP)]
    first = (TRAIN + COLD, TRAIN + WARM, SBX + COLD, SBX + WARM, SB3)
    rows += [[f"{name}: first generation", cell(measured, "start", name)] for name in first]
    return table(["", "seconds"], rows)


def memory(measured: Measured) -> str:
    """The most that was resident, and what was the process's own early and late."""
    early, late = Size().memory
    rows = []
    for name, found in measured.get("memory", {}).get("found", {}).items():
        private = found.get("private")
        cells = [NOT_RUN] * 3
        if private:
            # The list begins after the warmup, whose generations count.
            at = len(private) - 1 - (late - early)
            cells = [f"{mb:.0f}" for mb in (found["peak"], private[max(at, 0)], private[-1])]
        rows.append([_ours(name), *cells])
    return table(
        ["MB", "peak, resident", f"private, generation {early}", f"private, generation {late}"],
        rows or [[NOT_RUN] * 4],
    )


def width(measured: Measured) -> str:
    """More experts, beside plain PPO."""
    rows = [["`ppo`", cell(measured, "width", "ppo"), "", "", ""]]
    for k in cases.WIDTHS:
        cells = []
        for name in (f"capo-avg {k}", f"capo {k}"):
            cells += [cell(measured, "width", name), _over(measured, name)]
        rows.append([f"K = {k}", *cells])
    over = "over `ppo`"
    return table(["seconds a generation", "`capo-avg`", over, "`capo`", over], rows)


def _over(measured: Measured, name: str) -> str:
    found, ppo = (median(measured, "width", one) for one in (name, "ppo"))
    return f"{found / ppo:.2f}" if found and ppo else NOT_RUN


def envs(measured: Measured) -> str:
    """More environments, fewer steps each."""
    rows = [
        [f"{n} × {cases.ENVS * cases.STEPS // n}", *_pair(measured, "envs", SCALED, n)]
        for n in cases.ENV_COUNTS
    ]
    return table(["environments × steps", *(f"`{algo}`" for algo in SCALED)], rows)


def batch(measured: Measured) -> str:
    """Larger batches."""
    rows = [[f"{n:,}", *_pair(measured, "batch", SCALED, n)] for n in cases.BATCHES]
    return table(["samples a batch", *(f"`{algo}`" for algo in SCALED)], rows)


def hidden(measured: Measured) -> str:
    """Wider networks."""
    rows = [[f"{n}, {n}", *_pair(measured, "hidden", SCALED, n)] for n in cases.HIDDEN]
    return table(["hidden layers", *(f"`{algo}`" for algo in SCALED)], rows)


def _pair(measured: Measured, heat: str, algos: Sequence[str], size: int) -> list[str]:
    return [cell(measured, heat, f"{algo} {size}") for algo in algos]


def failures(measured: Measured) -> str:
    """What was not run, and why."""
    found = errors(measured)
    return "\n".join(f"- {line}" for line in found) or "Everything that was begun ran."
