"""Variants that switch on the parts of CAPO one at a time, and the contrasts between them."""

from capo.sweeps.design import Contrast, Variant

PPO, BEST, AVERAGE = Variant("ppo"), Variant("best-of-k"), Variant("capo-avg")
PPO_RESET = Variant("ppo", "carry reset", (("carry", "reset"),))
PPO_IN_REGION = Variant("ppo", "line search", (("line_search", "on"),))
PPO_IN_SMALL = Variant("ppo", "line search, δ = 0.005", (("line_search", "on"), ("delta", 0.005)))
AVERAGE_IN_REGION = Variant("capo-avg", "line search", (("line_search", "on"),))
AVERAGE_OF_STATES = Variant("capo-avg", "carry average", (("carry", "average"),))
AVERAGE_OF_BEST = Variant("capo-avg", "carry best", (("carry", "best"),))
POOL_IN_REGION = Variant("capo")
POOL_IN_SMALL = Variant("capo", "δ = 0.005", (("delta", 0.005),))
POOL = Variant("capo", "no line search", (("line_search", "off"),))

VARIANTS = (
    PPO,
    PPO_RESET,
    PPO_IN_REGION,
    PPO_IN_SMALL,
    BEST,
    AVERAGE,
    AVERAGE_IN_REGION,
    AVERAGE_OF_STATES,
    AVERAGE_OF_BEST,
    POOL_IN_REGION,
    POOL_IN_SMALL,
    POOL,
)
CONTRASTS = (
    Contrast(AVERAGE, PPO, "averaging"),
    Contrast(BEST, AVERAGE, "the best instead of the average"),
    Contrast(POOL, AVERAGE, "pooling instead of averaging"),
    Contrast(PPO_IN_REGION, PPO, "trust region"),
    Contrast(AVERAGE_IN_REGION, AVERAGE, "trust region"),
    Contrast(POOL_IN_REGION, POOL, "trust region"),
    Contrast(PPO_IN_SMALL, PPO_IN_REGION, "a smaller trust region"),
    Contrast(POOL_IN_SMALL, POOL_IN_REGION, "a smaller trust region"),
    Contrast(PPO_RESET, PPO, "optimizer state reset"),
    Contrast(AVERAGE_OF_STATES, AVERAGE, "optimizer state averaged"),
    Contrast(AVERAGE_OF_BEST, AVERAGE, "optimizer state of the best"),
)
