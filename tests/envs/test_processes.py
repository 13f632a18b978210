"""Environments in worker processes: the same numbers as in one process, and no process left."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from capo import EnvError
from capo.envs.backends import make
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.processes.vector import ProcessEnv
from capo.envs.registry import import_module_of
from capo.envs.timeouts import TimeoutEnv
from support.commands import with_tests_on_path
from support.equality import observation_leaves

SEED, SOON, PATIENCE = 7, 0.3, 30.0
FAULT, PARTS = "support.worker_tasks:Fault-v0", "support.worker_tasks:Parts-v0"
import_module_of(FAULT)


@contextlib.contextmanager
def opened(env_id, num_envs=4, workers=1, **kwargs):
    env = make(env_id, num_envs, SEED, "gymnasium", workers, **kwargs)
    try:
        yield env
    finally:
        env.close()


def faulty(index, fault, at=3, **changes):
    return opened(FAULT, fault=fault, bad=[SEED + index], at=at, **changes)


def pids(env):
    return [worker.process.pid for worker in env._workers]


def alive(pid):
    """Whether a process exists and is not a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def assert_gone(numbers):
    until = time.monotonic() + PATIENCE
    while any(map(alive, numbers)):
        assert time.monotonic() < until, "a worker is left"
        time.sleep(0.01)


def assert_same(a, b):
    for x, y in zip(observation_leaves(a), observation_leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def said_by(env, steps=5):
    """The message of the error that stepping ends with."""
    with pytest.raises(EnvError) as error:
        env.reset()
        for _ in range(steps):
            env.step(np.zeros(env.num_envs, int))
    return str(error.value)


@pytest.mark.parametrize(
    ("task", "num_envs", "workers"),
    [
        ("Hopper-v4", 5, 2),
        ("CartPole-v1", 3, 9),
        ("FrozenLake-v1", 4, 1),
        ("Blackjack-v1", 4, 1),
        (PARTS, 5, 1),
    ],
)
def test_the_numbers_are_those_of_one_process(task, num_envs, workers):
    rng, ended = np.random.default_rng(0), 0
    with opened(task, num_envs, 0) as ours, opened(task, num_envs, workers) as theirs:
        assert isinstance(ours, GymnasiumEnv)
        assert isinstance(theirs, ProcessEnv)
        assert len(theirs._workers) == min(workers, num_envs - 1)
        assert theirs.observation_space == ours.observation_space
        assert (theirs.backend, theirs.num_envs) == (ours.backend, num_envs)
        for seed in (None, 5):
            assert_same(ours.reset(seed), theirs.reset(seed))
            for _ in range(60):
                actions = np.array([ours.action_space.sample() for _ in range(num_envs)])
                if actions.dtype == np.float32:
                    actions = actions.astype(rng.choice([np.float32, np.float64]))
                one, two = ours.step(actions), theirs.step(actions)
                assert_same(one.obs, two.obs)
                assert_same(one.next_obs, two.next_obs)
                assert_same(tuple(one[2:]), tuple(two[2:]))
                ended += (one.terminated | one.truncated).sum()
    assert ended >= 5


def test_returned_arrays_are_not_overwritten():
    with opened("CartPole-v1") as env:
        first = env.reset()
        step = env.step(np.ones(4, int))
        kept = [np.copy(part) for part in (first, *step)]
        for _ in range(3):
            env.step(np.zeros(4, int))
        for before, now in zip(kept, (first, *step), strict=True):
            np.testing.assert_array_equal(before, now)


@pytest.mark.parametrize("index", [0, 2, 3])
@pytest.mark.parametrize(("fault", "at"), [("trip", 3), ("trip", 0), ("grow", 3), ("grow", 0)])
def test_an_error_reads_as_in_one_process(fault, at, index):
    with faulty(index, fault, at, workers=0) as env:
        expected = said_by(env)
    with faulty(index, fault, at) as env:
        started = pids(env)
        assert said_by(env) == expected
        assert f"environment {index} " in expected
        assert_gone(started)


def test_of_two_errors_the_first_environments_is_raised():
    for workers in (0, 1, 3):
        with opened(FAULT, workers=workers, fault="trip", bad=[10, 9]) as env:
            assert "environment 2 failed at step 3" in said_by(env)


def test_after_an_error_a_reset_starts_over():
    with faulty(2, "trip") as env, faulty(2, "trip", workers=0) as other:
        for each in (env, other):
            said_by(each)
        assert_same(env.reset(), other.reset())
        assert_same(env.step(np.zeros(4, int)).obs, other.step(np.zeros(4, int)).obs)
        said_by(env)
        with pytest.raises(EnvError, match="reset the environments before"):
            env.step(np.zeros(4, int))


def test_an_observation_that_does_not_fit_is_an_error():
    with faulty(2, "tell") as env:
        assert said_by(env).startswith(f"{FAULT}: cannot share an observation: ")


@pytest.mark.parametrize(
    ("fault", "at", "message"),
    [
        ("die", 3, "at step 3: the worker process ended (exit code -9)"),
        ("die", 0, "at the reset: the worker process ended (exit code -9)"),
        ("hang", 3, "at step 3: no answer within 0.3 s (env_timeout)"),
        ("hang", 0, "at the reset: no answer within 0.3 s (env_timeout)"),
        ("hold", 3, "at step 3: no answer within 0.3 s (env_timeout)"),
    ],
)
def test_a_worker_that_dies_or_hangs_is_named_and_ended(fault, at, message):
    with faulty(3, fault, at, workers=2) as env:
        started = pids(env)
        limit = SOON if "no answer" in message else PATIENCE
        said = said_by(TimeoutEnv(env, "odd", limit))
        assert said == f"{FAULT}: environment 3 failed {message}"
        assert_gone(started)


def test_an_environment_that_hangs_in_this_process_ends_the_workers_too():
    with faulty(0, "hang") as env:
        started = pids(env)
        assert "environment 0 failed at step 3: no answer" in said_by(TimeoutEnv(env, "odd", SOON))
        assert_gone(started)


def test_a_killed_idle_worker_is_reported_with_all_of_its_environments():
    with opened(FAULT, 5, 2) as env:
        env.reset()
        os.kill(pids(env)[1], signal.SIGKILL)
        assert_gone(pids(env)[1:])
        with pytest.raises(EnvError) as error:
            env.step(np.zeros(5, int))
        ended = "environments 3, 4 failed at step 1: the worker process ended (exit code -9)"
        assert str(error.value) == f"{FAULT}: {ended}"


@pytest.mark.parametrize("fault", ["die", "hang", "hold"])
def test_closing_never_hangs(fault):
    with faulty(3, fault) as env:
        env.reset()
        started = pids(env)
        for _ in range(3):
            env._workers[0].arrays.actions[...] = 0
            env._workers[0].channel.sendall(b'"step"\n')
        env.close()
        env.close()
    assert_gone(started)


def test_workers_do_not_get_the_signals_of_the_terminal():
    with opened(FAULT) as env:
        env.reset()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pids(env)[0], number)
            env.step(np.zeros(4, int))
        assert os.getpgid(pids(env)[0]) != os.getpgid(0)


def test_workers_end_when_the_environment_is_deleted():
    env = make(FAULT, 4, 0, "gymnasium", 2)
    env.reset()
    started = pids(env)
    del env
    gc.collect()
    assert_gone(started)


def script(folder, code, *words):
    """Starts a script with `tests` on its path and no `if __name__ == '__main__'`."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, *words, str(file)],
        env=with_tests_on_path(),
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("fault", ["none", "hang", "hold"])
def test_a_process_that_is_killed_leaves_nothing(fault, tmp_path):
    shared = Path("/dev/shm")
    before = set(shared.iterdir()) if shared.exists() else set()
    process = script(
        tmp_path,
        f"""
        import support.worker_tasks, time
        import numpy as np
        from capo.envs.backends import make
        env = make("{FAULT}", 4, 7, "gymnasium", 2, fault="{fault}", bad=[10])
        env.reset()
        print(*(worker.process.pid for worker in env._workers), flush=True)
        for _ in range(3):
            env.step(np.zeros(4, int))
        time.sleep(1000)
        """,
    )
    started = [int(word) for word in process.stdout.readline().split()]
    time.sleep(SOON)
    assert all(map(alive, [process.pid, *started]))
    process.kill()
    process.communicate()
    assert_gone(started)
    if shared.exists():
        assert {path for path in shared.iterdir() if "capo" in path.name} <= before


def test_a_script_is_not_run_again_and_its_modules_are_found(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from support.worker_tasks import Fault\nclass Mine(Fault):\n    pass\n"
    )
    process = script(
        tmp_path,
        """
        import gymnasium, mine
        import numpy as np
        from capo.envs.backends import make
        print("begun")
        gymnasium.register("Mine-v0", "mine:Mine", max_episode_steps=2)
        env = make("Mine-v0", 2, 0, "gymnasium", 1)
        env.reset()
        env.step(np.zeros(2, int))
        print(env.step(np.zeros(2, int)).truncated.tolist())
        """,
        "-W", "error", "-X", "dev",
    )  # fmt: skip
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "begun\n[True, True]\n", "")


def test_a_worker_does_not_import_jax():
    code = (
        "import sys, capo.envs.processes.worker as worker; "
        "sys.exit(bool({'jax', 'equinox'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
