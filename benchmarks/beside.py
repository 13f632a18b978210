"""Prints what PPO reached with the same number of samples, from the runs in results/.

python -m benchmarks.beside Hopper-v4 600000
"""

import sys

import numpy as np

from benchmarks.documents import RESULTS
from capo.paper.tasks import PAPER
from capo.report.format import compact, count
from capo.sweeps.design import Variant
from capo.sweeps.results import Results
from capo.sweeps.store import Store

DEFAULT = PAPER._replace(preset="default")


def beside(env_id: str, steps: int, results: Results) -> str:
    """The training return of `ppo` with its default settings after as many steps."""
    curves = [run.curve for run in results.of(env_id, Variant("ppo")).values()]
    if not curves:
        return ""
    reached = [float(np.interp(steps, curve["steps"], curve["return"])) for curve in curves]
    return (
        f"for comparison: {compact(steps)} steps of ppo on {env_id} had a training return of "
        f"{np.mean(reached):.0f} ({count(len(reached), 'run')} in results/)"
    )


def main() -> None:
    """Prints the line."""
    env_id, steps = sys.argv[1:]
    results = Results(Store(RESULTS).results(), DEFAULT)
    if said := beside(env_id, int(steps), results):
        print(said)


if __name__ == "__main__":
    main()
