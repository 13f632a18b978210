"""Measures by the columns of the paper's tables."""

from capo.sweeps.measures import (
    FRAMES,
    GRADIENT_STEPS,
    PARAMETERS,
    RETURN,
    SECONDS,
    diagnostic,
    relative,
)

DEPTH_COLUMNS = {
    "return": RETURN,
    "signal": diagnostic("fisher/signal", 2, 1e3),
    "waste": diagnostic("fisher/waste", 2, 1e3),
    "total": diagnostic("fisher/total", 2, 1e3),
    "alignment": diagnostic("fisher/alignment", 2),
    "cosine": diagnostic("fisher/cosine", 2),
}
"""Measures by the columns of the paper's table."""
LAST_UPDATE = (
    diagnostic("fisher/total", 4, 1e3, last=True),
    diagnostic("fisher/alignment", 2, last=True),
)
CORRELATION = {
    "rho_signal": diagnostic("consensus/rho_signal"),
    "rho_waste": diagnostic("consensus/rho_waste"),
    "rho_total": diagnostic("consensus/rho_total"),
    "signal_kept": diagnostic("consensus/signal_kept"),
}
SPREAD = diagnostic("consensus/signal_spread")
"""std(c_k) / mean(c_k): signals are collinear, so their cosines do not show their differences."""
CORRELATION_LAST = {name: diagnostic(f"consensus/{name}", last=True) for name in CORRELATION}
WASTE = {
    "mean_expert_waste": diagnostic("consensus/expert_waste", 2, 1e3),
    "consensus_waste": diagnostic("fisher/waste", 2, 1e3),
    "ratio": diagnostic("consensus/waste_ratio"),
}
WASTE_EXPECTED = (
    diagnostic("consensus/waste_ratio_predicted")._replace(name="predicted"),
    diagnostic("consensus/q_waste_ratio")._replace(name="pool"),
)
"""Predicted ratio for wastes of equal size, and ratio of the pool before distillation."""
WASTE_LAST = {
    "mean_expert_waste": diagnostic("consensus/expert_waste", 7, last=True),
    "consensus_waste": diagnostic("fisher/waste", 7, last=True),
    "ratio": diagnostic("consensus/waste_ratio", last=True),
}
COMPUTE = {
    "frames": relative(FRAMES),
    "gradient_steps": relative(GRADIENT_STEPS),
    "inference": relative(PARAMETERS),
}
SECONDS_RATIO = relative(SECONDS)
