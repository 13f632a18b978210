"""Trains the runs behind docs/diagnostics.md and writes its tables and picture.

python benchmarks/diagnostics.py                  train what is missing, then write
python benchmarks/diagnostics.py --write-only     only write, from the runs there are
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import grid
from capo import records
from capo.statistics import standard_error
from grid import NOT_RUN, ROOT

PAGE, PICTURE = ROOT / "docs" / "diagnostics.md", ROOT / "docs" / "depth.png"
DEPTH, WIDTH = ROOT / "runs" / "depth", ROOT / "runs" / "width"
DEPTH_ENVS = ("Hopper-v4", "HalfCheetah-v4")
WIDTH_ENVS = ("Hopper-v4", "HalfCheetah-v4", "Walker2d-v4")
EPOCHS = (2, 4, 6, 10, 15, 20, 40)
ALGOS = ("capo-avg", "capo")
SEEDS = (1, 2, 3)
BLUE, ORANGE, GRAY = "#2166ac", "#e8871e", "#777777"

# What the paper states. Signal, waste and total are c², ‖ε‖² and their sum, in 10⁻³.
PAPER_HOPPER = {
    2: (884, 1.5, 6.0, 0.20),
    4: (2222, 2.6, 9.3, 0.22),
    6: (2546, 3.4, 11.5, 0.23),
    10: (3210, 5.3, 16.3, 0.24),
    15: (3054, 7.2, 22.1, 0.25),
    20: (1584, 8.2, 31.5, 0.21),
    40: (1296, 10.1, 67.9, 0.13),
}
PAPER_HALFCHEETAH = {4: 0.36, 10: 0.46, 40: 0.26}
PAPER_CORRELATION = {
    "Hopper-v4": (0.993, 0.934, 0.939),
    "HalfCheetah-v4": (0.999, 0.974, 0.976),
    "Walker2d-v4": (0.999, 0.961, 0.966),
}
PAPER_RATIO = {
    ("Hopper-v4", "capo-avg"): (7.8e-4, 0.950),
    ("Hopper-v4", "capo"): (1.3e-3, 5.68),
    ("HalfCheetah-v4", "capo-avg"): (2.7e-3, 0.980),
    ("HalfCheetah-v4", "capo"): (3.5e-3, 9.27),
    ("Walker2d-v4", "capo-avg"): (1.1e-3, 0.971),
    ("Walker2d-v4", "capo"): (9.7e-4, 8.37),
}

Row = dict[str, Any]


def train() -> None:
    """Every run that is not there yet."""
    ppo = ["--algo", "ppo", "-n", "1M"]
    depth = (
        (DEPTH / f"{env}__E{e}__{s}", [env, *ppo, "--epochs", str(e), "--seed", str(s)])
        for s in SEEDS
        for env in DEPTH_ENVS
        for e in reversed(EPOCHS)
    )
    width = (
        (WIDTH / f"{env}__{algo}__{s}", [env, "--algo", algo, "-n", "1M", "--seed", str(s)])
        for s in SEEDS
        for env in WIDTH_ENVS
        for algo in ALGOS
    )
    grid.train([*depth, *width])


def looked_at(folder: Path) -> list[Row]:
    """The rows with a diagnosis: ten evenly spaced, and the last."""
    return [row for row in records.rows(folder) if "fisher/total" in row]


def spaced(folder: Path) -> list[Row]:
    """The evenly spaced ones after the warmup."""
    return [row for row in looked_at(folder)[:-1] if not row["warmup"]]


def last(folder: Path) -> list[Row]:
    """The last update, when the learning rate has come down to a 244th."""
    return looked_at(folder)[-1:]


def mean(folders: list[Path], key: str, of: Callable[[Path], list[Row]]) -> tuple[float, float]:
    """Mean over seeds of the mean over updates, and its standard error."""
    values = np.array([np.mean([row[key] for row in of(folder)]) for folder in folders])
    return float(values.mean()), float(standard_error(values))


def cell(folders: list[Path], key: str, of=spaced, digits: int = 3, scale: float = 1.0) -> str:
    """1.23 ± 0.04, or that it was not run."""
    if not folders:
        return NOT_RUN
    value, error = mean(folders, key, of)
    return f"{scale * value:.{digits}f} ± {scale * error:.{digits}f}"


def depth_table(env: str) -> str:
    """A row for each depth: return, signal, waste, alignment over the run and at its end."""
    lines = [
        "| E | return | signal, 10⁻³ | waste, 10⁻³ | α | α, last update | total, last, 10⁻³ | "
        "paper: return; signal; waste; α |",
        "|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for e in EPOCHS:
        folders = grid.finished(DEPTH, f"{env}__E{e}__*")
        if env == "Hopper-v4":
            score, signal, waste, share = PAPER_HOPPER[e]
            paper = f"{score}; {signal}; {waste}; {share:.2f}"
        else:
            paper = f"α {PAPER_HALFCHEETAH[e]:.2f}" if e in PAPER_HALFCHEETAH else "not stated"
        cells = [
            str(e),
            grid.returns(folders),
            cell(folders, "fisher/signal", digits=1, scale=1e3),
            cell(folders, "fisher/waste", digits=1, scale=1e3),
            cell(folders, "fisher/alignment", digits=2),
            cell(folders, "fisher/alignment", last, digits=2),
            cell(folders, "fisher/total", last, digits=3, scale=1e3),
            paper,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def correlation_table() -> str:
    """How alike the four experts of CAPO-Avg are, over the run and at its end."""
    lines = [
        "| | ρ_ε | ρ_ε, last | ρ_total | ρ_total, last | spread of c | spread, last | "
        "paper: ρ_c; ρ_ε; ρ_total |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for env in WIDTH_ENVS:
        folders = grid.finished(WIDTH, f"{env}__capo-avg__*")
        cells = [env]
        for key in ("rho_waste", "rho_total", "signal_spread"):
            cells += [cell(folders, f"consensus/{key}", of) for of in (spaced, last)]
        cells.append("; ".join(f"{value:.3f}" for value in PAPER_CORRELATION[env]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratio_table() -> str:
    """Waste of the consensus over the experts', for both ways to merge."""
    lines = [
        "| | method | waste ratio | predicted | of the pool q | ratio, last | "
        "expert waste, last | paper: ratio; expert waste |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for env in WIDTH_ENVS:
        for algo in ALGOS:
            folders = grid.finished(WIDTH, f"{env}__{algo}__*")
            waste, ratio = PAPER_RATIO[env, algo]
            cells = [
                env,
                f"`{algo}`",
                cell(folders, "consensus/waste_ratio"),
                cell(folders, "consensus/waste_ratio_predicted"),
                cell(folders, "consensus/q_waste_ratio"),
                cell(folders, "consensus/waste_ratio", last),
                f"{mean(folders, 'consensus/expert_waste', last)[0]:.1e}" if folders else NOT_RUN,
                f"{ratio:.3g}; {waste:.1e}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def theorem_table() -> str:
    """How often Theorem 1 failed, and what the consensus saved."""
    lines = [
        "| | method | generations | q broke it | the network broke it | KL saved by q |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for env in WIDTH_ENVS:
        for algo in ALGOS:
            folders = grid.finished(WIDTH, f"{env}__{algo}__*")
            wide = [r for f in folders for r in records.rows(f) if "consensus/violations" in r]
            if not wide:
                lines.append(f"| {env} | `{algo}` | {NOT_RUN} | | | |")
                continue
            pool, network = (
                sum(row[f"consensus/{name}"] > 0 for row in wide)
                for name in ("q_violations", "violations")
            )
            saved = np.mean([1 - row["consensus/q_kl"] / row["expert_kl"] for row in wide])
            cells = (env, f"`{algo}`", len(wide), pool, network, f"{saved:.1%}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def draw() -> None:
    """Return, and signal and waste, against depth."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, env in zip(figure.subplots(1, 2), DEPTH_ENVS, strict=True):
        cells = {e: grid.finished(DEPTH, f"{env}__E{e}__*") for e in EPOCHS}
        cells = {e: folders for e, folders in cells.items() if folders}
        if not cells:
            continue
        for key, color in (("waste", ORANGE), ("signal", BLUE)):
            points = [mean(f, f"fisher/{key}", spaced) for f in cells.values()]
            values, errors = zip(*points, strict=True)
            axes.errorbar(list(cells), values, errors, color=color, fmt="o-", ms=4, label=key)
        if env == "Hopper-v4":
            for index, color in ((2, ORANGE), (1, BLUE)):
                paper = [PAPER_HOPPER[e][index] / 1e3 for e in EPOCHS]
                label = ("signal", "waste")[index - 1] + ", paper"
                axes.plot(EPOCHS, paper, color=color, lw=1, ls=":", label=label)
        axes.set(xscale="log", yscale="log", xlabel="epochs E", title=env)
        axes.set_xticks(EPOCHS, [str(e) for e in EPOCHS])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.set_ylabel("c² and ‖ε‖²")
        axes.grid(alpha=0.2)
        score = axes.twinx()
        scores = [grid.evaluations(folders) for folders in cells.values()]
        errors = [float(standard_error(s)) for s in scores]
        score.errorbar(
            list(cells), [np.mean(s) for s in scores], errors, color=GRAY, fmt="s--", ms=4
        )
        score.set(ylim=(0, None))
        score.set_ylabel("return (squares)", color=GRAY)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Trains, then writes."""
    if not grid.write_only(__doc__):
        train()
    for mark, text in {
        "hopper": depth_table("Hopper-v4"),
        "halfcheetah": depth_table("HalfCheetah-v4"),
        "correlation": correlation_table(),
        "ratio": ratio_table(),
        "theorem": theorem_table(),
    }.items():
        grid.fill(PAGE, mark, text)
        print(f"{text}\n")
    draw()


if __name__ == "__main__":
    main()
