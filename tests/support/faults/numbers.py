"""NaN in the loss, a gradient, one expert or all experts."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from capo import Config
from capo.callbacks import follow
from capo.envs.adapters import encode_observations
from capo.envs.backends import make
from capo.methods import settle
from capo.model import Model
from capo.runs.checkpoint import FOLDER, list_checkpoints, load, load_newest
from capo.runs.folder import RunFolder
from capo.runs.options import Options
from capo.state import Generation
from capo.storage.tensors import named_leaves
from capo.train import generations
from support.run_folders import rows_of

SIZES = {
    "num_envs": 2, "num_steps": 32, "minibatches": 2, "epochs": 2, "experts": 3, "hidden": (8,),
    "diagnostics": 0, "warmup": 0.0, "total_steps": 64 * 10, "backend": "gymnasium",
}  # fmt: skip
PLACES = ((1,), (4,), (2, 3), (1, 5, 8), (3, 4, 5), (7, 8, 9))
"""Generations with the fault; few, so that few programs are compiled."""
ALGOS = {"expert": ("capo-avg", "capo"), "experts": ("capo-avg", "capo")}


def injected(kind: str) -> Callable[[Path, np.random.Generator, int], int]:
    """The trial of one of the faults of `nan_injection`."""
    return functools.partial(_inject, kind)


def _inject(kind: str, work: Path, rng: np.random.Generator, times: int) -> int:
    for index in range(times):
        algos = ALGOS.get(kind, ("ppo", "capo-avg"))
        algo, places = str(rng.choice(algos)), PLACES[rng.integers(len(PLACES))]
        config = settle(Config("CartPole-v1", algo=algo, seed=int(rng.integers(99)), **SIZES))
        run = work / f"{index}"
        steps, error = _play(config, run, dict.fromkeys(places, kind))
        where = f"{algo}, {kind} in generations {places}"
        if kind == "expert":
            assert error is None, f"{where}: {error}"
            _assert_went_on(run, steps, places, where)
        else:
            _assert_kept(run, steps, places, error, where)
        for path in list_checkpoints(run / FOLDER):
            load(path)  # refuses what is not finite
        Model.load(run / "model.safetensors")
        # Generations that kept the incumbent are not saved: three of them would be all there is.
        bad = () if kind == "expert" else places
        good = max(step.number for step in steps if step.number not in bad)
        assert load_newest(run).step.number == good, f"{where}: not the last good one is the newest"
    return times


def _play(
    config: Config, run_dir: Path, faults: dict[int, str]
) -> tuple[list[Generation], Exception | None]:
    """Trains with the faults; returns all generations and the final error."""
    from capo.errors import NonFiniteError
    from support.nan_injection import faulty

    steps: list[Generation] = []
    env = encode_observations(
        make(config.env_id, config.num_envs, config.seed, config.backend), config
    )
    run = RunFolder(run_dir, config, env.backend, Options(1))
    try:
        with faulty(config, faults), run.guarded():
            follow(generations(config, env), [run.record, lambda step, _: steps.append(step)])
            run.finish("finished")
    except NonFiniteError as error:
        return steps, error
    finally:
        env.close()
    return steps, None


def _assert_went_on(
    run: Path, steps: list[Generation], places: tuple[int, ...], where: str
) -> None:
    """These generations have one expert less, and the policy still changed."""
    for row in rows_of(run):
        bad = int(row["generation"]) in places
        assert row["nonfinite/experts"] == int(bad), f"{where}: not counted in {row}"
        assert row["nonfinite/policy"] == 0, f"{where}: the incumbent was kept"
    for index in places:
        assert _policy(steps[index]) != _policy(steps[index - 1]), f"{where}: nothing was learned"


def _assert_kept(
    run: Path,
    steps: list[Generation],
    places: tuple[int, ...],
    error: Exception | None,
    where: str,
) -> None:
    """These generations kept the incumbent; three in a row ended the run."""
    for row in rows_of(run):
        bad = int(row["generation"]) in places
        assert row["nonfinite/policy"] == int(bad), f"{where}: not counted in {row}"
    for index in places:
        assert _policy(steps[index]) == _policy(steps[index - 1]), f"{where}: it did not stay"
    in_a_row = len(places) == 3 and places[2] - places[0] == 2
    assert (error is not None) == in_a_row, f"{where}: ended with {error}"
    assert steps[-1].number == (places[2] if in_a_row else 9), f"{where}: {steps[-1].number}"
    if error is not None:
        assert "\n" not in str(error)


def _policy(step: Generation) -> bytes:
    return b"".join(np.asarray(leaf).tobytes() for leaf in named_leaves(step.state.policy).values())
