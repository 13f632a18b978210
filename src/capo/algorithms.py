"""The methods as classes: a row of the table of methods each."""

from capo.learner import Algorithm


class PPO(Algorithm):
    """One expert, E epochs."""

    algo = "ppo"


class PPOKx(Algorithm):
    """One expert, K·E epochs."""

    algo = "ppo-kx"


class PPOSWA(Algorithm):
    """One expert; the mean of its end-of-epoch iterates."""

    algo = "ppo-swa"


class BestOfK(Algorithm):
    """K experts; the one with the highest surrogate."""

    algo = "best-of-k"


class TRPO(Algorithm):
    """One natural gradient step with a line search."""

    algo = "trpo"


class CAPOAvg(Algorithm):
    """K experts; the mean of their parameters."""

    algo = "capo-avg"


class CAPO(Algorithm):
    """K experts; their logarithmic opinion pool, distilled, within a KL trust region."""

    algo = "capo"
