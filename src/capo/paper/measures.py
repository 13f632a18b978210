"""The numbers of a run that the tables show."""

from capo.paper.design import Measure
from capo.records import number

REFERENCE = "ppo"
"""What relative measures are relative to."""
RETURN = Measure("return", lambda run: run.score)
TRAINED = Measure("return in training", lambda run: number((run.curve["return"] or [None])[-1]))
"""At the end of the run, with the noise of exploring."""


def _at(name: str, digits: int = 3, scale: float = 1.0, last: bool = False) -> Measure:
    """A number of the split, over the run or of the last update."""
    short = name.split("/")[1].replace("_", " ")
    label = f"{short}, last update" if last else short
    label += ", 10⁻³" if scale == 1e3 else ""
    if last:
        return Measure(label, lambda run: scale * run.last(name), digits)
    return Measure(label, lambda run: scale * run.spaced(name), digits)


DEPTH_COLUMNS = {
    "return": RETURN,
    "signal": _at("fisher/signal", 2, 1e3),
    "waste": _at("fisher/waste", 2, 1e3),
    "total": _at("fisher/total", 2, 1e3),
    "alignment": _at("fisher/alignment", 2),
    "cosine": _at("fisher/cosine", 2),
}
"""The paper's columns, by the names they have in its numbers."""
AT_THE_END = (
    _at("fisher/total", 4, 1e3, last=True),
    _at("fisher/alignment", 2, last=True),
)
AGREEMENT = {
    "rho_signal": _at("consensus/rho_signal"),
    "rho_waste": _at("consensus/rho_waste"),
    "rho_total": _at("consensus/rho_total"),
    "signal_kept": _at("consensus/signal_kept"),
}
SPREAD = _at("consensus/signal_spread")
"""std(c_k) / mean(c_k): signals all lie on one line, so that their cosines say little."""
AGREEMENT_LAST = {name: _at(f"consensus/{name}", last=True) for name in AGREEMENT}
WASTE = {
    "mean_expert_waste": _at("consensus/expert_waste", 2, 1e3),
    "consensus_waste": _at("fisher/waste", 2, 1e3),
    "ratio": _at("consensus/waste_ratio"),
}
WASTE_EXPECTED = (
    _at("consensus/waste_ratio_predicted")._replace(name="predicted"),
    _at("consensus/q_waste_ratio")._replace(name="of the pool"),
)
"""What averaging wastes of equal size leaves, and what the pool has before it is distilled."""
WASTE_LAST = {
    "mean_expert_waste": _at("consensus/expert_waste", 7, last=True),
    "consensus_waste": _at("fisher/waste", 7, last=True),
    "ratio": _at("consensus/waste_ratio", last=True),
}
SECONDS = Measure("seconds", lambda run: run.totals["seconds"])
FRAMES = Measure("frames", lambda run: run.totals["frames"])
STEPS_TAKEN = Measure("gradient steps", lambda run: run.totals["gradient_steps"])
PARAMETERS = Measure("parameters that act", lambda run: run.totals["parameters"])


def _relative(measure: Measure) -> Measure:
    return measure._replace(name=f"{measure.name} over PPO's", digits=2, relative=True)


COMPUTE = {
    "frames": _relative(FRAMES),
    "gradient_steps": _relative(STEPS_TAKEN),
    "inference": _relative(PARAMETERS),
}
SECONDS_RATIO = _relative(SECONDS)
