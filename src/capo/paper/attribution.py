"""What CAPO is made of, switched on one at a time: averaging, trust region, optimizer state."""

from capo.paper.design import Contrast, Variant

PPO, BEST, AVERAGE = Variant("ppo"), Variant("best-of-k"), Variant("capo-avg")
PPO_RESET = Variant("ppo", "carry reset", (("carry", "reset"),))
PPO_IN_REGION = Variant("ppo", "line search", (("line_search", "on"),))
AVERAGE_IN_REGION = Variant("capo-avg", "line search", (("line_search", "on"),))
AVERAGE_OF_STATES = Variant("capo-avg", "carry average", (("carry", "average"),))
AVERAGE_OF_BEST = Variant("capo-avg", "carry best", (("carry", "best"),))
POOL_IN_REGION = Variant("capo")
POOL = Variant("capo", "no line search", (("line_search", "off"),))

VARIANTS = (
    PPO,
    PPO_RESET,
    PPO_IN_REGION,
    BEST,
    AVERAGE,
    AVERAGE_IN_REGION,
    AVERAGE_OF_STATES,
    AVERAGE_OF_BEST,
    POOL_IN_REGION,
    POOL,
)
CONTRASTS = (
    Contrast("averaging", AVERAGE, PPO),
    Contrast("the best instead of the average", BEST, AVERAGE),
    Contrast("pooling instead of averaging", POOL, AVERAGE),
    Contrast("trust region", PPO_IN_REGION, PPO),
    Contrast("trust region", AVERAGE_IN_REGION, AVERAGE),
    Contrast("trust region", POOL_IN_REGION, POOL),
    Contrast("optimizer state reset", PPO_RESET, PPO),
    Contrast("optimizer state averaged", AVERAGE_OF_STATES, AVERAGE),
    Contrast("optimizer state of the best", AVERAGE_OF_BEST, AVERAGE),
)
