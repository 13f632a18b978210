"""Measures: the numbers of a run that the tables show."""

from capo.paper.design import Measure
from capo.runs.reading import number

REFERENCE = "ppo"
"""Method that relative measures are relative to."""
RETURN = Measure("return", lambda run: run.score)
TRAINING_RETURN = Measure(
    "return in training", lambda run: number((run.curve["return"] or [None])[-1])
)
"""Mean of the last 100 training episodes, with exploration noise."""
SECOND_HALF = Measure("return in training, second half", lambda run: run.mean_second_half)


def _update(name: str, digits: int = 3, scale: float = 1.0, last: bool = False) -> Measure:
    """A diagnostic of the updates: mean over the run, or of the last update."""
    short = name.split("/")[1].replace("_", " ")
    label = f"{short}, last update" if last else short
    label += ", 10⁻³" if scale == 1e3 else ""
    if last:
        return Measure(label, lambda run: scale * run.in_last_update(name), digits)
    return Measure(label, lambda run: scale * run.mean_over_run(name), digits)


DEPTH_COLUMNS = {
    "return": RETURN,
    "signal": _update("fisher/signal", 2, 1e3),
    "waste": _update("fisher/waste", 2, 1e3),
    "total": _update("fisher/total", 2, 1e3),
    "alignment": _update("fisher/alignment", 2),
    "cosine": _update("fisher/cosine", 2),
}
"""Measures by the columns of the paper's table."""
LAST_UPDATE = (
    _update("fisher/total", 4, 1e3, last=True),
    _update("fisher/alignment", 2, last=True),
)
CORRELATION = {
    "rho_signal": _update("consensus/rho_signal"),
    "rho_waste": _update("consensus/rho_waste"),
    "rho_total": _update("consensus/rho_total"),
    "signal_kept": _update("consensus/signal_kept"),
}
SPREAD = _update("consensus/signal_spread")
"""std(c_k) / mean(c_k): signals are collinear, so their cosines do not show their differences."""
CORRELATION_LAST = {name: _update(f"consensus/{name}", last=True) for name in CORRELATION}
WASTE = {
    "mean_expert_waste": _update("consensus/expert_waste", 2, 1e3),
    "consensus_waste": _update("fisher/waste", 2, 1e3),
    "ratio": _update("consensus/waste_ratio"),
}
WASTE_EXPECTED = (
    _update("consensus/waste_ratio_predicted")._replace(name="predicted"),
    _update("consensus/q_waste_ratio")._replace(name="pool"),
)
"""Predicted ratio for wastes of equal size, and ratio of the pool before distillation."""
WASTE_LAST = {
    "mean_expert_waste": _update("consensus/expert_waste", 7, last=True),
    "consensus_waste": _update("fisher/waste", 7, last=True),
    "ratio": _update("consensus/waste_ratio", last=True),
}
SECONDS = Measure("seconds", lambda run: run.totals["seconds"])
FRAMES = Measure("frames", lambda run: run.totals["frames"])
GRADIENT_STEPS = Measure("gradient steps", lambda run: run.totals["gradient_steps"])
PARAMETERS = Measure("policy parameters", lambda run: run.totals["parameters"])


def _relative(measure: Measure) -> Measure:
    return measure._replace(name=f"{measure.name}, relative to PPO", digits=2, relative=True)


COMPUTE = {
    "frames": _relative(FRAMES),
    "gradient_steps": _relative(GRADIENT_STEPS),
    "inference": _relative(PARAMETERS),
}
SECONDS_RATIO = _relative(SECONDS)
