"""Arms of our own experiments on width: over shuffles of one batch, and over the last batches.

The twin of an arm with K experts is PPO with the same batches, schedule, learning rate and care for
exploration. An advantage that the twin has too is not due to the number of experts. Every arm
states all values that a preset or a later default may change.
"""

from typing import Any

from capo.paper.tasks import ANT, CHEETAH, HOPPER, HUMANOID, STANDUP, WALKER
from capo.sweeps.design import Contrast, Experiment, Layout, Threshold, Variant
from capo.sweeps.measures import RETURN, SECOND_HALF

ON_ITS_FEET = Threshold(CHEETAH, 3000.0)
"""HalfCheetah's runs end either below 2000, on the back, or above 4000."""
TRIAL_SEEDS = (11, 12, 13)
"""Seeds that settings are chosen on. They are part of no final table."""
RETURNS = (
    Layout("Training return, second half", ("label",), "env", (SECOND_HALF,)),
    Layout("Final return", ("label",), "env", (RETURN,)),
)


def _variant(algo: str, setting: str, fixed: dict[str, Any], changes: dict[str, Any]) -> Variant:
    return Variant(algo, setting, tuple((fixed | changes).items()))


ON_SHUFFLES: dict[str, Any] = {"preset": "corrected", "diagnostics": 0}
"""Four experts on shuffles of a batch of 4096."""


def _shuffled(algo: str, setting: str, **changes: Any) -> Variant:
    return _variant(algo, setting, ON_SHUFFLES, changes)


STEADY = {"schedule": "trapezoid", "carry": "reset"}
SHUFFLE_TWINS = {
    _shuffled("capo-avg", "K = 4, trapezoid, reset, no warmup", warmup=0.0, **STEADY): _shuffled(
        "ppo", "trapezoid, reset", **STEADY
    ),
}
"""Exact twins: the arm and its twin differ in nothing but the number of experts."""
TWINS = Experiment(
    "twins",
    "Experts that differ in their shuffle, and their exact twin",
    "not in the paper",
    "Four experts on one batch of 4096 samples, and one expert with the same schedule and "
    "optimizer state. Ratios are of the training return averaged over the second half of a run, "
    "with the same seed; brackets are 95% intervals.",
    (HOPPER, CHEETAH, WALKER, ANT),
    (*SHUFFLE_TWINS.values(), *SHUFFLE_TWINS),
    TRIAL_SEEDS,
    RETURNS,
    "ratios",
    tuple(Contrast(arm, twin) for arm, twin in SHUFFLE_TWINS.items()),
    next(iter(SHUFFLE_TWINS.values())),
    ON_ITS_FEET,
)

LONE: dict[str, Any] = {
    "preset": "default",
    "num_steps": 128,
    "minibatches": 8,
    "schedule": "linear",
    "learning_rate": 3e-4,
    "epochs": 10,
    "action_noise": 0.0,
    "entropy_coef": 0.0,
    "entropy_schedule": "constant",
    "entropy_fall": None,
    "advantage_floor": 0.0,
}
"""One expert on batches of 1024."""
BATCHES: dict[str, Any] = LONE | {
    "experts": 8,
    "diversity": "batches",
    "carry": "average",
    "warmup": 0.0,
    "deviation": "all",
    "critic_batches": "newest",
    "outer_lr": None,
}
"""Eight experts on the last eight batches of 1024."""
NOISE = {"action_noise": 0.5}
SMALL_BONUS, BONUS = {"entropy_coef": 0.003}, {"entropy_coef": 0.01}
TARGET = {"entropy_coef": 0.003, "entropy_fall": 0.7}
NEWEST = {"deviation": "newest"}


def _wide(setting: str, **changes: Any) -> Variant:
    return _variant("capo-avg", setting, BATCHES, changes)


def _alone(setting: str, **changes: Any) -> Variant:
    return _variant("ppo", setting, LONE, changes)


PLAIN, PLAIN_TWIN = _wide("K = 8"), _alone("batches of 1024")
NOISY, NOISY_TWIN = _wide("K = 8, β = 0.5", **NOISE), _alone("β = 0.5", **NOISE)
BONUS_ARM, BONUS_TWIN = _wide("K = 8, bonus 0.01", **BONUS), _alone("bonus 0.01", **BONUS)
STEADY_ARM = _wide("K = 8, newest σ", **NEWEST)
CAREFUL = NOISE | NEWEST
CAREFUL_ARM = _wide("K = 8, β = 0.5, newest σ", **CAREFUL)
BOTH_ARM = _wide("K = 8, β = 0.5, bonus 0.01", **NOISE, **BONUS)
CARE = (
    PLAIN,
    NOISY,
    BONUS_ARM,
    STEADY_ARM,
    CAREFUL_ARM,
    _wide("K = 8, target 0.7", **TARGET),
    _wide("K = 8, β = 0.5, target 0.7", **NOISE, **TARGET),
    _wide("K = 8, β = 0.25, newest σ", **NEWEST, action_noise=0.25),
    _wide("K = 8, newest σ, bonus 0.003", **NEWEST, **SMALL_BONUS),
    _wide("K = 8, β = 0.5, bonus 0.003", **NOISE, **SMALL_BONUS),
    BOTH_ARM,
    _wide("K = 8, β = 0.5, floor 0.1", **NOISE, advantage_floor=0.1),
    _wide("K = 8, bonus 0.01 falling", **BONUS, entropy_schedule="linear"),
    _wide("K = 8, β = 0.25", action_noise=0.25),
    _wide("K = 8, β = 1", action_noise=1.0),
)
"""Ways to keep exploring."""
DOUBLE = {"outer_lr": 2.0}
FOUR_BATCHES = {"num_steps": 512, "minibatches": 32}
TWO_BATCHES = {"num_steps": 256, "minibatches": 16}
HALF_BATCH = {"num_steps": 64, "minibatches": 4}
QUARTER_BATCH = {"num_steps": 32, "minibatches": 2}
SMALL_ARM = _wide("K = 8, β = 0.5, newest σ, batches of 512", **CAREFUL, **HALF_BATCH)
FOUR_ARM = _wide("K = 4, β = 0.5, newest σ", **CAREFUL, experts=4)
SMALL_ARMS = (
    _wide("K = 16, β = 0.5, newest σ, batches of 512", **CAREFUL, **HALF_BATCH, experts=16),
    _wide("K = 8, β = 0.5, newest σ, batches of 256", **CAREFUL, **QUARTER_BATCH),
    _wide("K = 4, β = 0.5, newest σ, batches of 512", **CAREFUL, **HALF_BATCH, experts=4),
    _wide("K = 16, β = 0.5, newest σ, batches of 256", **CAREFUL, **QUARTER_BATCH, experts=16),
)
FLAT = {"schedule": "trapezoid"}
FLAT_TWIN = _alone("trapezoid", **FLAT)
FLAT_ARM = _wide("K = 8, β = 0.5, newest σ, trapezoid", **CAREFUL, **FLAT)
FLAT_SMALL_ARM = _wide(
    "K = 8, β = 0.5, newest σ, batches of 512, trapezoid", **CAREFUL, **HALF_BATCH, **FLAT
)
SMALL_TWIN = _alone("batches of 512", **HALF_BATCH)
SMALL_NOISY_TWIN = _alone("β = 0.5, batches of 512", **NOISE, **HALF_BATCH)
SIZES = (
    _wide("K = 8, newest σ, step 2", **NEWEST, **DOUBLE),
    _wide("K = 8, β = 0.5, newest σ, step 2", **CAREFUL, **DOUBLE),
    _wide("K = 4, newest σ", **NEWEST, experts=4),
    FOUR_ARM,
    _wide("K = 2, newest σ", **NEWEST, experts=2),
    SMALL_ARM,
    *SMALL_ARMS,
    _wide("K = 4, β = 0.5, newest σ, E = 5", **CAREFUL, experts=4, epochs=5),
    _wide("K = 8, β = 0.5, newest σ, E = 5", **CAREFUL, epochs=5),
    _wide("K = 8, β = 0.5, newest σ, E = 20", **CAREFUL, epochs=20),
    _wide("K = 8, β = 0.5, newest σ, critic on all batches", **CAREFUL, critic_batches="all"),
    _wide("K = 16, β = 0.5, newest σ", **CAREFUL, experts=16),
    _wide("K = 2, β = 0.5, newest σ", **CAREFUL, experts=2),
    _wide("K = 8, β = 0.5, newest σ, batches of 2048", **CAREFUL, **TWO_BATCHES),
    _wide("K = 8, β = 0.5, newest σ, batches of 4096", **CAREFUL, **FOUR_BATCHES),
)
"""How much is averaged, and how far the average moves."""
RIVALS = (
    PLAIN_TWIN,
    _alone("batches of 4096", **FOUR_BATCHES),
    NOISY_TWIN,
    BONUS_TWIN,
    _alone("batches of 2048", **TWO_BATCHES),
    SMALL_TWIN,
    SMALL_NOISY_TWIN,
    _alone("target 0.7", **TARGET),
    FLAT_TWIN,
    _alone("batches of 512, trapezoid", **HALF_BATCH, **FLAT),
    _alone("batches of 4096, trapezoid", **FOUR_BATCHES, **FLAT),
    _alone("β = 0.5, trapezoid", **NOISE, **FLAT),
    _alone("1e-4", learning_rate=1e-4),
    _alone("6e-4", learning_rate=6e-4),
    _alone("E = 5", epochs=5),
    _alone("E = 20", epochs=20),
)
"""The settings among which PPO's best are chosen."""
POOLED = tuple(
    _alone(f"pooled 8, β = 0.5, {rate}", **NOISE, reuse=8, learning_rate=float(rate))
    for rate in ("1e-4", "3e-4", "5e-5")
)
"""One expert on the samples that eight experts have: as many gradient samples in all."""
PARTS = (
    _variant("capo", "K = 8, β = 0.5, newest σ", BATCHES, CAREFUL),
    _wide("K = 8, β = 0.5, newest σ, reset", **CAREFUL, carry="reset"),
    _wide("K = 8, β = 0.5, newest σ, best", **CAREFUL, carry="best"),
    FLAT_ARM,
    FLAT_SMALL_ARM,
)
WIDER = Experiment(
    "wider",
    "Experts on the last batches: one seed of every arm",
    "not in the paper",
    "The first stage of the choice of the defaults. Ratios are of the training return averaged "
    "over the second half of a run, with the same seed.",
    (HOPPER, ANT),
    (
        *CARE[:5],
        *RIVALS[:7],
        *SIZES[:10],
        PARTS[0],
        FLAT_ARM,
        FLAT_SMALL_ARM,
        *RIVALS[7:],
        *CARE[5:9],
        *SIZES[10:],
        *CARE[9:],
        *POOLED,
        *PARTS[1:3],
    ),
    TRIAL_SEEDS[:1],
    RETURNS,
    "ratios",
    (
        Contrast(PLAIN, PLAIN_TWIN),
        Contrast(NOISY, NOISY_TWIN),
        Contrast(BONUS_ARM, BONUS_TWIN),
        Contrast(STEADY_ARM, PLAIN_TWIN),
        Contrast(CAREFUL_ARM, NOISY_TWIN),
        Contrast(SMALL_ARM, SMALL_NOISY_TWIN),
        *(Contrast(CAREFUL_ARM, pooled) for pooled in POOLED),
    ),
    PLAIN_TWIN,
)
BEST = (SMALL_ARM, FOUR_ARM, BOTH_ARM, CAREFUL_ARM)
"""Of the arms that did best with the first seed on both tasks, those that differ most."""
WIDER_BEST = Experiment(
    "wider-best",
    "Experts on the last batches: the best arms and their rivals",
    "not in the paper",
    "The second stage of the choice of the defaults. Ratios are of the training return averaged "
    "over the second half of a run, to the best PPO, with the same seed; brackets are 95% "
    "intervals.",
    (HOPPER, WALKER, ANT, CHEETAH),
    (
        FLAT_TWIN,
        SMALL_ARM,
        PLAIN_TWIN,
        FOUR_ARM,
        BOTH_ARM,
        CAREFUL_ARM,
        SMALL_NOISY_TWIN,
        *SHUFFLE_TWINS,
    ),
    TRIAL_SEEDS,
    RETURNS,
    "ratios",
    (
        *(Contrast(arm, PLAIN_TWIN) for arm in BEST),
        Contrast(SMALL_ARM, SMALL_NOISY_TWIN),
        *(Contrast(arm, twin) for arm, twin in SHUFFLE_TWINS.items()),
    ),
    FLAT_TWIN,
    ON_ITS_FEET,
)
DEFAULT = _variant("capo", "", BATCHES, CAREFUL)
"""What `capo train ENV` does."""
PROOF = Experiment(
    "proof",
    "The default against PPO",
    "not in the paper",
    "Fresh seeds, after all settings were chosen: `capo` as it is by default, one expert on the "
    "same batches, one expert on the same pooled samples, PPO at its best in the trials, and PPO "
    "on the paper's batches. Ratios are of the training return averaged over the second half of "
    "a run, with the same seed; brackets are 95% intervals.",
    (HOPPER, CHEETAH, WALKER, ANT),
    (DEFAULT, FLAT_TWIN, NOISY_TWIN, RIVALS[1], POOLED[0]),
    tuple(range(101, 111)),
    RETURNS,
    "ratios",
    tuple(Contrast(DEFAULT, each) for each in (NOISY_TWIN, RIVALS[1], POOLED[0])),
    FLAT_TWIN,
    ON_ITS_FEET,
)
PROOF_ON_HUMANOID = Experiment(
    "proof-humanoid",
    "The default on Humanoid",
    "not in the paper",
    "Five fresh seeds: `capo` as it is by default, PPO at its best in the trials, and TRPO.",
    (HUMANOID, STANDUP),
    (DEFAULT, FLAT_TWIN, Variant("trpo", "", (("preset", "default"),))),
    tuple(range(101, 106)),
    RETURNS,
    "ratios",
    (),
    FLAT_TWIN,
)
