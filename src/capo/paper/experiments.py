"""All experiments: their tasks, variants, seeds, measures, published numbers and tables."""

import functools
from typing import Any

from capo.paper import arms, attribution, published
from capo.paper.measures import (
    COMPUTE,
    CORRELATION,
    CORRELATION_LAST,
    DEPTH_COLUMNS,
    LAST_UPDATE,
    SECONDS_RATIO,
    SPREAD,
    WASTE,
    WASTE_EXPECTED,
    WASTE_LAST,
)
from capo.paper.tasks import ANT, CHEETAH, ENVS, HOPPER, WALKER, mismatch
from capo.sweeps.design import Contrast, Experiment, Finder, Layout, Measure, Variant
from capo.sweeps.measures import (
    FRAMES,
    GRADIENT_STEPS,
    PARAMETERS,
    RETURN,
    SECONDS,
    TRAINING_RETURN,
)

ALGOS = ("ppo", "ppo-kx", "best-of-k", "ppo-swa", "trpo", "capo-avg", "capo")
EPOCHS = (2, 4, 6, 10, 15, 20, 40)


def _sweep(algos: tuple[str, ...], field: str, label: str, values: tuple[Any, ...]):
    return tuple(
        Variant(algo, label.format("none" if value is None else value), ((field, value),))
        for algo in algos
        for value in values
    )


OVER_PPO = tuple(Contrast(Variant(algo), Variant("ppo")) for algo in ALGOS[1:])
METHODS = tuple(Variant(algo) for algo in ALGOS)
DEPTHS = _sweep(("ppo",), "epochs", "E = {}", EPOCHS)
SEVERAL_EXPERTS = ("capo-avg", "capo")
CARRIES = _sweep(SEVERAL_EXPERTS, "carry", "{}", ("incumbent", "reset", "best", "average"))
BY_SETTING: tuple[tuple[str, ...], str, tuple[Measure, ...]] = (
    ("env", "algo"),
    "setting",
    (RETURN,),
)


def _ablation(title: str, key: str) -> tuple[Layout, ...]:
    return (Layout(title, *BY_SETTING, published.sweep_table(key)),)


def _by_depth(stated: Finder) -> tuple[Layout, ...]:
    columns = tuple(DEPTH_COLUMNS.values())
    return (
        Layout("By depth", ("setting",), "measure", columns, stated),
        Layout("The last update", ("setting",), "measure", LAST_UPDATE),
    )


OfThePaper = functools.partial(Experiment, mismatch=mismatch)
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        OfThePaper(
            "main",
            "Final return of every method",
            "Table 4",
            "Mean return of 20 evaluation episodes with the mean action and the final parameters.",
            ENVS,
            METHODS,
            8,
            (Layout("Final return", ("algo",), "env", (RETURN,), published.main_table),),
            contrasts=OVER_PPO,
        ),
        OfThePaper(
            "curves",
            "Learning curves",
            "Figure 3",
            "Training return: the mean of the last 100 episodes, with exploration noise. Bands are "
            "95% bootstrap intervals over seeds.",
            ENVS,
            METHODS,
            8,
            (
                Layout(
                    "Training return at the end of the run", ("algo",), "env", (TRAINING_RETURN,)
                ),
            ),
            "curves",
            OVER_PPO,
        ),
        OfThePaper(
            "compute",
            "Compute of each method",
            "Table 2",
            "Counted from the metrics and the model file of a run. In the warmup a method with K "
            "experts trains one, so its gradient steps are fewer than K times PPO's; the paper "
            "does not count the warmup.",
            (CHEETAH,),
            METHODS,
            1,
            (
                Layout(
                    "Relative to PPO",
                    ("algo",),
                    "measure",
                    tuple(COMPUTE.values()),
                    published.compute_table,
                ),
                Layout("Counts", ("algo",), "measure", (FRAMES, GRADIENT_STEPS, PARAMETERS)),
            ),
        ),
        OfThePaper(
            "depth",
            "Deeper updates: return, signal and waste against epochs",
            "Table 1 and Figure 1b",
            "The paper states the signal and waste of the final update. With a learning rate that "
            "falls to zero this update is almost zero, so the paper's numbers are compared with "
            "the mean over ten updates spread evenly over the run; the last update has its own "
            "table. Signal and waste are c² and ‖ε‖², twice their KL.",
            (HOPPER,),
            DEPTHS,
            3,
            _by_depth(published.depth_hopper),
            "depth",
        ),
        OfThePaper(
            "fisher-epochs",
            "Deeper updates on HalfCheetah",
            "Figure 4",
            "The paper has a figure. Its text states the alignment at three depths, that waste "
            "grows 21-fold from E = 2 to E = 40, and that the return is largest between E = 6 and "
            "15.",
            (CHEETAH,),
            DEPTHS,
            3,
            _by_depth(published.depth_halfcheetah),
            "fisher-epochs",
        ),
        OfThePaper(
            "correlation",
            "Correlation of the experts' signals and wastes",
            "Table 5",
            "Mean pairwise cosine under the Fisher inner product for CAPO-Avg with K = 4. The "
            "paper's numbers are of the final generation. The second table is the mean over the "
            "run, with the spread of the signals' lengths, std(c)/mean(c).",
            ENVS[:-1],
            (Variant("capo-avg"),),
            5,
            (
                Layout(
                    "The last update",
                    ("env",),
                    "measure",
                    tuple(CORRELATION_LAST.values()),
                    published.column_table("correlation", CORRELATION_LAST),
                ),
                Layout("Over the run", ("env",), "measure", (*CORRELATION.values(), SPREAD)),
            ),
        ),
        OfThePaper(
            "waste",
            "Waste of the consensus relative to its experts",
            "Table 6",
            "Ratio of the consensus' waste to the mean waste of its experts, K = 4, E = 10. The "
            "second table also has the ratio predicted for the average of wastes of equal size, "
            "1/K + (1 − 1/K) ρ, and the ratio of the analytic pool before distillation.",
            ENVS[:-1],
            tuple(Variant(algo) for algo in SEVERAL_EXPERTS),
            5,
            (
                Layout(
                    "The last update",
                    ("env", "algo"),
                    "measure",
                    tuple(WASTE_LAST.values()),
                    published.column_table("waste_reduction", WASTE_LAST),
                ),
                Layout(
                    "Over the run",
                    ("env", "algo"),
                    "measure",
                    (*WASTE.values(), *WASTE_EXPECTED),
                ),
            ),
        ),
        OfThePaper(
            "wall-clock",
            "Wall-clock time",
            "Table 7",
            "Seconds of collecting, updating and diagnosing, without compilation and evaluation. "
            "Several runs were trained at once, each pinned to its own cores, so ratios can be "
            "compared and seconds cannot; `make bench` measures speed on an idle machine.",
            ENVS,
            METHODS,
            8,
            (
                Layout(
                    "PPO, seconds",
                    ("algo",),
                    "env",
                    (SECONDS,),
                    published.wall_clock_seconds,
                    ("ppo",),
                ),
                Layout(
                    "Other methods, relative to PPO",
                    ("algo",),
                    "env",
                    (SECONDS_RATIO,),
                    published.wall_clock_ratio,
                    ALGOS[1:],
                ),
            ),
        ),
        OfThePaper(
            "carry",
            "Optimizer state carried to the next generation",
            "Table 8",
            "Source of Adam's moments for the experts of the next generation.",
            (HOPPER, WALKER, ANT),
            CARRIES,
            3,
            _ablation("Final return by carry", "carry"),
            contrasts=tuple(
                Contrast(after, before)
                for before, *others in (CARRIES[:4], CARRIES[4:])
                for after in others
            ),
        ),
        OfThePaper(
            "width",
            "Number of experts",
            "Table 9",
            "K experts at E = 10.",
            (CHEETAH, WALKER, ANT),
            _sweep(SEVERAL_EXPERTS, "experts", "K = {}", (2, 4, 8, 16)),
            3,
            _ablation("Final return by width", "width"),
        ),
        OfThePaper(
            "clip",
            "The clip threshold",
            "Table 10",
            "ε of the clipped surrogate.",
            (CHEETAH, WALKER, ANT),
            _sweep(("ppo", *SEVERAL_EXPERTS), "clip", "ε = {}", (0.1, 0.2, 0.3, 0.5)),
            3,
            _ablation("Final return by clip threshold", "clip"),
        ),
        OfThePaper(
            "target-kl",
            "Early stopping by KL",
            "Table 11",
            "An expert stops its epochs once its KL exceeds this value.",
            (CHEETAH, WALKER, ANT),
            _sweep(("ppo", *SEVERAL_EXPERTS), "target_kl", "KL = {}", (None, 0.02, 0.04, 0.08)),
            3,
            _ablation("Final return by target KL", "target_kl"),
        ),
        OfThePaper(
            "warmup",
            "The warmup",
            "Table 12",
            "Share of the steps that are trained by plain PPO first.",
            (CHEETAH, WALKER, ANT),
            _sweep(SEVERAL_EXPERTS, "warmup", "{}", (0.0, 0.05, 0.1, 0.2)),
            5,
            _ablation("Final return by warmup", "warmup"),
        ),
        OfThePaper(
            "attribution",
            "Attribution of the gain",
            "not in the paper",
            "Averaging, the trust region and the optimizer state, switched on one at a time.",
            (CHEETAH, WALKER),
            attribution.VARIANTS,
            3,
            (Layout("Final return", ("label",), "env", (RETURN,)),),
            "attribution",
            attribution.CONTRASTS,
        ),
        arms.TWINS,
        arms.WIDER,
        arms.WIDER_BEST,
        arms.PROOF,
        arms.PROOF_ON_HUMANOID,
    )
}
OF_THE_PAPER = tuple(name for name, each in EXPERIMENTS.items() if each.reference is None)
"""The experiments that `all` means: those of the paper, and the attribution of their results."""
