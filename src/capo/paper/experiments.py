"""Every experiment as data: its runs, its measures, its published numbers, its layout."""

from typing import Any

from capo.paper import attribution, published
from capo.paper.design import Contrast, Experiment, Finder, Layout, Measure, Variant
from capo.paper.measures import (
    AGREEMENT,
    AGREEMENT_LAST,
    AT_THE_END,
    COMPUTE,
    DEPTH_COLUMNS,
    FRAMES,
    PARAMETERS,
    RETURN,
    SECONDS,
    SECONDS_RATIO,
    SPREAD,
    STEPS_TAKEN,
    TRAINED,
    WASTE,
    WASTE_EXPECTED,
    WASTE_LAST,
)

HOPPER, CHEETAH, WALKER, ANT = "Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"
HUMANOID, STANDUP = "Humanoid-v4", "HumanoidStandup-v4"
ENVS = (HOPPER, CHEETAH, WALKER, ANT, HUMANOID, STANDUP)
ALGOS = ("ppo", "ppo-kx", "best-of-k", "ppo-swa", "trpo", "capo-avg", "capo")
STEPS, HUMANOID_STEPS = 1_000_000, 4_000_000
EPOCHS = (2, 4, 6, 10, 15, 20, 40)


def paper_steps(env_id: str) -> int:
    """Environment steps of the paper's runs on a task."""
    return HUMANOID_STEPS if env_id == HUMANOID else STEPS


def _sweep(algos: tuple[str, ...], field: str, label: str, values: tuple[Any, ...]):
    return tuple(
        Variant(algo, label.format(value), ((field, value),)) for algo in algos for value in values
    )


OVER_PPO = tuple(Contrast(Variant(algo), Variant("ppo")) for algo in ALGOS[1:])
METHODS = tuple(Variant(algo) for algo in ALGOS)
DEPTHS = _sweep(("ppo",), "epochs", "E = {}", EPOCHS)
WIDE = ("capo-avg", "capo")
CARRIES = _sweep(WIDE, "carry", "{}", ("incumbent", "reset", "best", "average"))
BY_SETTING: tuple[tuple[str, ...], str, tuple[Measure, ...]] = (
    ("env", "algo"),
    "setting",
    (RETURN,),
)


def _ablation(title: str, key: str) -> tuple[Layout, ...]:
    return (Layout(title, *BY_SETTING, published.swept(key)),)


def _by_depth(stated: Finder) -> tuple[Layout, ...]:
    columns = tuple(DEPTH_COLUMNS.values())
    return (
        Layout("By depth", ("setting",), "measure", columns, stated),
        Layout("The last update", ("setting",), "measure", AT_THE_END),
    )


EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Experiment(
            "main",
            "Final return of every method",
            "Table 4",
            "Mean return of 20 evaluation episodes with the mean action, final parameters.",
            ENVS,
            METHODS,
            8,
            (Layout("Final return", ("algo",), "env", (RETURN,), published.main),),
            contrasts=OVER_PPO,
        ),
        Experiment(
            "curves",
            "Learning curves",
            "Figure 3",
            "Return in training, the mean of the last 100 episodes, with the noise of exploring; "
            "±1 standard error over seeds.",
            ENVS,
            METHODS,
            8,
            (Layout("Return in training, at the end", ("algo",), "env", (TRAINED,)),),
            "curves",
            OVER_PPO,
        ),
        Experiment(
            "compute",
            "What each method spends",
            "Table 2",
            "Counted from the rows of a run and from its model file. The paper counts no warmup: "
            "in it a method with K experts trains one, so its sum stays below K times PPO's.",
            (CHEETAH,),
            METHODS,
            1,
            (
                Layout(
                    "Over PPO's", ("algo",), "measure", tuple(COMPUTE.values()), published.compute
                ),
                Layout("Counted", ("algo",), "measure", (FRAMES, STEPS_TAKEN, PARAMETERS)),
            ),
        ),
        Experiment(
            "depth",
            "Deeper updates: return, signal and waste against epochs",
            "Table 1 and Figure 1b",
            "The paper states the split of the final update. With a learning rate that comes down "
            "to zero that update all but vanishes, so the mean over ten updates spread evenly "
            "over the run stands beside the paper's numbers, and the last update in a column of "
            "its own. Signal and waste are c² and ‖ε‖², twice their KL.",
            (HOPPER,),
            DEPTHS,
            3,
            _by_depth(published.depth),
            "depth",
        ),
        Experiment(
            "fisher-epochs",
            "The same on HalfCheetah",
            "Figure 4",
            "The paper draws this and states only the alignment at three depths, that waste grows "
            "21-fold from E = 2 to E = 40, and that the return peaks between E = 6 and 15.",
            (CHEETAH,),
            DEPTHS,
            3,
            _by_depth(published.fisher_epochs),
            "fisher-epochs",
        ),
        Experiment(
            "correlation",
            "How alike the experts' signals and wastes are",
            "Table 5",
            "Mean pairwise cosine under the Fisher inner product, K = 4, CAPO-Avg. The paper's "
            "numbers are of the final generation; the same over the whole run is beside it, with "
            "the spread of the signals' lengths, std(c)/mean(c).",
            ENVS[:-1],
            (Variant("capo-avg"),),
            5,
            (
                Layout(
                    "The last update",
                    ("env",),
                    "measure",
                    tuple(AGREEMENT_LAST.values()),
                    published.of_columns("correlation", AGREEMENT_LAST),
                ),
                Layout("Over the run", ("env",), "measure", (*AGREEMENT.values(), SPREAD)),
            ),
        ),
        Experiment(
            "waste",
            "Waste of the consensus over that of its experts",
            "Table 6",
            "Below 1 the consensus wastes less than its experts do on average. K = 4, E = 10. Over "
            "the run also the ratio that averaging wastes of equal size leaves, 1/K + (1 − 1/K) ρ, "
            "and that of the analytic pool, before it is distilled.",
            ENVS[:-1],
            tuple(Variant(algo) for algo in WIDE),
            5,
            (
                Layout(
                    "The last update",
                    ("env", "algo"),
                    "measure",
                    tuple(WASTE_LAST.values()),
                    published.of_columns("waste_reduction", WASTE_LAST),
                ),
                Layout(
                    "Over the run",
                    ("env", "algo"),
                    "measure",
                    (*WASTE.values(), *WASTE_EXPECTED),
                ),
            ),
        ),
        Experiment(
            "wall-clock",
            "Wall-clock time",
            "Table 7",
            "Seconds of collecting, updating and diagnosing, without compiling and evaluating, as "
            "the runs went: several at once, each pinned to its own cores. So ratios can be "
            "compared, seconds cannot; `make bench` measures speed on a quiet machine.",
            ENVS,
            METHODS,
            8,
            (
                Layout("PPO, seconds", ("algo",), "env", (SECONDS,), published.seconds, ("ppo",)),
                Layout(
                    "The others, over PPO",
                    ("algo",),
                    "env",
                    (SECONDS_RATIO,),
                    published.overhead,
                    ALGOS[1:],
                ),
            ),
        ),
        Experiment(
            "carry",
            "Whose optimizer state is carried on",
            "Table 8",
            "Adam's moments for the next generation's experts.",
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
        Experiment(
            "width",
            "More experts",
            "Table 9",
            "K experts at E = 10.",
            (CHEETAH, WALKER, ANT),
            _sweep(WIDE, "experts", "K = {}", (2, 4, 8, 16)),
            3,
            _ablation("Final return by width", "width"),
        ),
        Experiment(
            "clip",
            "The clip threshold",
            "Table 10",
            "ε of the clipped surrogate.",
            (CHEETAH, WALKER, ANT),
            _sweep(("ppo", *WIDE), "clip", "ε = {}", (0.1, 0.2, 0.3, 0.5)),
            3,
            _ablation("Final return by clip threshold", "clip"),
        ),
        Experiment(
            "target-kl",
            "Stopping early by KL",
            "Table 11",
            "An expert takes no further epochs once its KL exceeds this; 0: never.",
            (CHEETAH, WALKER, ANT),
            _sweep(("ppo", *WIDE), "target_kl", "KL = {}", (0.0, 0.02, 0.04, 0.08)),
            3,
            _ablation("Final return by target KL", "target_kl"),
        ),
        Experiment(
            "warmup",
            "The warmup",
            "Table 12",
            "Share of the steps that plain PPO trains first.",
            (CHEETAH, WALKER, ANT),
            _sweep(WIDE, "warmup", "{}", (0.0, 0.05, 0.1, 0.2)),
            5,
            _ablation("Final return by warmup", "warmup"),
        ),
        Experiment(
            "attribution",
            "What the gain comes from",
            "not in the paper",
            "Averaging, the trust region and the optimizer state, switched on one at a time.",
            (CHEETAH, WALKER),
            attribution.VARIANTS,
            3,
            (Layout("Final return", ("label",), "env", (RETURN,)),),
            "attribution",
            attribution.CONTRASTS,
        ),
    )
}
