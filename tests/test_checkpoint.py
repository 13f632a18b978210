"""A run that goes on from a checkpoint is the run that was never interrupted, bit for bit."""

import functools
import json

import numpy as np
import pytest

from capo import Config
from capo.adapters import encoded
from capo.callbacks import follow
from capo.envs import make
from capo.resuming import Resumed, reopen, take_up
from capo.runs import Recording, RunFolder
from capo.tensors import named
from capo.train import generations
from probes import ALGOS, small

pytestmark = pytest.mark.xdist_group("checkpoint")
GENERATIONS = 14
CUTS = (1, 6, 8)
"""Within the warmup, where environments have just begun anew, two generations later."""
TASK = {"num_envs": 2, "total_steps": 32 * GENERATIONS, "warmup": 0.2, "epochs": 2}
STATS = {"normalize_obs": True, "normalize_reward": True}


@pytest.fixture(autouse=True)
def _renew_often(monkeypatch):
    """New episodes after every sixth generation of sixteen steps."""
    monkeypatch.setattr("capo.rollout.RENEW_STEPS", 96)


def config_of(algo, **changes) -> Config:
    env = {"env_id": "CartPole-v1", "diagnostics": 5 if algo == "capo" else 0}
    return small(algo, **TASK, **STATS).replace(**{**env, **changes})


def never(text):
    raise AssertionError(text)


def play(config, path, every=1, start: Resumed | None = None, until=GENERATIONS):
    """Trains in a folder, as the command does, and leaves it as a process that is killed would."""
    env = encoded(make(config.env_id, config.num_envs, config.seed, config.backend), config)
    step = take_up(start, env, True, never) if start else None
    run = RunFolder(path, config, env.backend, Recording(every), start)
    last = follow(generations(config, env, step), [run.see, lambda s, _: s.number + 1 < until])
    env.close()
    run._lock.release()
    run._metrics.close()
    return last


@functools.cache
def whole(algo, backend, folder):
    """The uninterrupted run: its last generation, its rows."""
    path = folder / f"{algo}-{backend}"
    return play(config_of(algo, backend=backend), path, every=0), rows_of(path)


def rows_of(path):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def assert_same(first, second):
    """The same networks, moments, statistics, environments, recent episodes."""
    ours, theirs = (named((s.state, s.collector._replace(played=()))) for s in (first, second))
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert first.recent == second.recent
    assert first.number == second.number


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_resumed_run_equals_the_uninterrupted_one(algo, backend, cut, base, tmp_path):
    if backend == "envpool":
        pytest.importorskip("envpool")
    expected, rows = whole(algo, backend, base)
    config = config_of(algo, backend=backend)
    play(config, tmp_path / "run", until=cut)
    start = reopen(tmp_path / "run", None, False, None)
    assert start.checkpoint.step.number == cut - 1
    assert_same(play(config, tmp_path / "run", start=start), expected)
    assert rows_of(tmp_path / "run") == rows
