"""The line with PPO's return at the end of `make train`."""

from benchmarks.beside import DEFAULT, beside
from capo.paper.tasks import HOPPER
from capo.sweeps.design import Variant
from capo.sweeps.results import Results
from support.paper_runs import add


def test_ppo_stands_beside_a_training_run():
    found = add({}, HOPPER, Variant("ppo"), [1000, 2000], selection=DEFAULT)
    said = beside(HOPPER, 500_000, Results(found, DEFAULT))
    # The made-up curves are lines from 0 to the score.
    assert said.endswith("Hopper-v4 had a training return of 750 (2 runs in results/)")
    assert beside(HOPPER, 500_000, Results({}, DEFAULT)) == ""
