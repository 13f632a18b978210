"""Measures: the numbers of a run that tables show."""

from capo.runs.reading import number
from capo.sweeps.design import Measure

RETURN = Measure("return", lambda run: run.score)
TRAINING_RETURN = Measure(
    "return in training", lambda run: number((run.curve["return"] or [None])[-1])
)
"""Mean of the last 100 training episodes, with exploration noise."""
SECOND_HALF = Measure("return in training, second half", lambda run: run.mean_second_half)
SECONDS = Measure("seconds", lambda run: run.totals["seconds"])
FRAMES = Measure("frames", lambda run: run.totals["frames"])
GRADIENT_STEPS = Measure("gradient steps", lambda run: run.totals["gradient_steps"])
PARAMETERS = Measure("policy parameters", lambda run: run.totals["parameters"])


def diagnostic(name: str, digits: int = 3, scale: float = 1.0, last: bool = False) -> Measure:
    """A diagnostic of the updates: mean over the run, or of the last update."""
    short = name.split("/")[1].replace("_", " ")
    label = f"{short}, last update" if last else short
    label += ", 10⁻³" if scale == 1e3 else ""
    if last:
        return Measure(label, lambda run: scale * run.in_last_update(name), digits)
    return Measure(label, lambda run: scale * run.mean_over_run(name), digits)


def relative(measure: Measure) -> Measure:
    """The measure divided by PPO's mean over seeds."""
    return measure._replace(name=f"{measure.name}, relative to PPO", digits=2, relative=True)
