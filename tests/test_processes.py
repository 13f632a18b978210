"""Environments in several processes: the same numbers as in one, and nothing left when it ends."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from capo import PPO, EnvError, UsageError
from capo.envs import GymnasiumEnv, make
from capo.processes import ProcessEnv
from capo.recipes import recipe_of, workers_for
from capo.registry import import_module_of
from capo.timeouts import TimedEnv
from odd import Fault
from test_adapters import leaves

SEED, SOON, PATIENCE = 7, 0.3, 30.0
import_module_of("odd:Fault-v0")


@contextlib.contextmanager
def opened(env_id, num_envs=4, workers=1, **kwargs):
    env = make(env_id, num_envs, SEED, "gymnasium", workers, **kwargs)
    try:
        yield env
    finally:
        env.close()


def faulty(index, fault, at=3, **changes):
    return opened("odd:Fault-v0", fault=fault, bad=[SEED + index], at=at, **changes)


def pids(env):
    return [worker.process.pid for worker in env._workers]


def alive(pid):
    """Whether a process is there, and not only waited for."""
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
    for x, y in zip(leaves(a), leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def said_by(env, steps=5):
    """The error that playing ends with."""
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
        ("odd:Parts-v0", 5, 1),
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


def test_what_was_given_stays_as_it_was():
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
def test_an_error_is_told_as_in_one_process(fault, at, index):
    with faulty(index, fault, at, workers=0) as env:
        expected = said_by(env)
    with faulty(index, fault, at) as env:
        started = pids(env)
        assert said_by(env) == expected
        assert f"environment {index} " in expected
        assert_gone(started)


def test_of_two_errors_the_first_environments_is_told():
    for workers in (0, 1, 3):
        with opened("odd:Fault-v0", workers=workers, fault="trip", bad=[10, 9]) as env:
            assert "environment 2 failed at step 3" in said_by(env)


def test_after_an_error_a_reset_begins_anew():
    with faulty(2, "trip") as env, faulty(2, "trip", workers=0) as other:
        for each in (env, other):
            said_by(each)
        assert_same(env.reset(), other.reset())
        assert_same(env.step(np.zeros(4, int)).obs, other.step(np.zeros(4, int)).obs)
        said_by(env)
        with pytest.raises(EnvError, match="have to be reset first"):
            env.step(np.zeros(4, int))


def test_what_cannot_be_handed_on_is_told():
    with faulty(2, "tell") as env:
        assert said_by(env).startswith("odd:Fault-v0: an observation has no place: ")


@pytest.mark.parametrize(
    ("fault", "at", "message"),
    [
        ("die", 3, "at step 3: the worker process ended (exit code -9)"),
        ("die", 0, "at the reset: the worker process ended (exit code -9)"),
        ("hang", 3, "at step 3: no answer within 0.3 s (--env-timeout)"),
        ("hang", 0, "at the reset: no answer within 0.3 s (--env-timeout)"),
        ("hold", 3, "at step 3: no answer within 0.3 s (--env-timeout)"),
    ],
)
def test_a_worker_that_dies_or_hangs_is_named_and_ended(fault, at, message):
    with faulty(3, fault, at, workers=2) as env:
        started = pids(env)
        limit = SOON if "no answer" in message else PATIENCE
        said = said_by(TimedEnv(env, "odd", limit))
        assert said == f"odd:Fault-v0: environment 3 failed {message}"
        assert_gone(started)


def test_an_environment_that_hangs_in_this_process_ends_the_workers_too():
    with faulty(0, "hang") as env:
        started = pids(env)
        assert "environment 0 failed at step 3: no answer" in said_by(TimedEnv(env, "odd", SOON))
        assert_gone(started)


def test_an_idle_worker_that_is_killed_is_told_by_all_of_its_environments():
    with opened("odd:Fault-v0", 5, 2) as env:
        env.reset()
        os.kill(pids(env)[1], signal.SIGKILL)
        assert_gone(pids(env)[1:])
        with pytest.raises(EnvError) as error:
            env.step(np.zeros(5, int))
        ended = "the worker process ended (exit code -9)"
        assert str(error.value) == f"odd:Fault-v0: environments 3, 4 failed at step 1: {ended}"


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


def test_the_signals_of_the_terminal_are_for_this_process():
    with opened("odd:Fault-v0") as env:
        env.reset()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pids(env)[0], number)
            env.step(np.zeros(4, int))
        assert os.getpgid(pids(env)[0]) != os.getpgid(0)


def test_workers_end_with_what_they_belong_to():
    env = make("odd:Fault-v0", 4, 0, "gymnasium", 2)
    env.reset()
    started = pids(env)
    del env
    gc.collect()
    assert_gone(started)


def script(folder, code, *words):
    """Starts a script that has `tests` on its path, and nothing to keep it from being run again."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(code))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, *words, str(file)],
        env={**os.environ, "PYTHONPATH": path},
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
        import odd, time
        import numpy as np
        from capo.envs import make
        env = make("odd:Fault-v0", 4, 7, "gymnasium", 2, fault="{fault}", bad=[10])
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
    (tmp_path / "mine.py").write_text("import odd\nclass Mine(odd.Fault):\n    pass\n")
    process = script(
        tmp_path,
        """
        import gymnasium, mine
        import numpy as np
        from capo.envs import make
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


def test_a_worker_does_not_start_jax():
    code = "import sys, capo.stepper; sys.exit(bool({'jax', 'equinox'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("entry", "kwargs", "why"),
    [
        (lambda: Fault(), {}, "is not to be found by its name"),
        ("__main__:Fault", {}, "it is part of the script"),
        (Fault, {"at": (1, 2)}, "its arguments are no JSON"),
        (Fault, {"at": {1, 2}}, "not JSON serializable"),
        (Fault, {"at": np.nan}, "its arguments are no JSON"),
    ],
)
def test_tasks_that_cannot_be_made_elsewhere_are_refused(entry, kwargs, why):
    for registered, given in ((kwargs, {}), ({}, kwargs)):
        gym.register("Local-v0", entry, kwargs=registered)
        try:
            with pytest.raises(UsageError, match=f"^Local-v0 cannot be made .*{why}.* --workers"):
                make("Local-v0", 2, 0, "gymnasium", 1, **given)
        finally:
            del gym.registry["Local-v0"]
    assert recipe_of("odd:Parts-v0", {"a": [1, None]})["kwargs"] == {"a": [1, None]}


def test_observations_of_no_fixed_size_are_refused():
    gym.register("Text-v0", "odd:Text")
    try:
        with pytest.raises(UsageError, match=r"Text-v0: Text.* has no fixed size, so --workers"):
            make("Text-v0", 2, 0, "gymnasium", 1)
    finally:
        del gym.registry["Text-v0"]


def test_a_task_that_only_this_process_can_make_is_told(monkeypatch):
    gym.register("Local-v0", "odd:Local")
    monkeypatch.setattr("odd.Local", Fault, raising=False)
    try:
        with opened("Local-v0") as env:
            said = r"^Local-v0 cannot be made in another process: AttributeError: .*--workers 0"
            with pytest.raises(EnvError, match=said):
                env.reset()
    finally:
        del gym.registry["Local-v0"]


def test_as_many_as_there_are_other_cores_for_mujoco(monkeypatch):
    monkeypatch.setattr("capo.recipes.available_cores", lambda: 4)
    tasks = ("Hopper-v4", "Humanoid-v5", "CartPole-v1", "odd:Fault-v0")
    assert [workers_for(task, None, 8) for task in tasks] == [3, 3, 0, 0]
    assert [workers_for("Hopper-v4", None, envs) for envs in (1, 2, 3)] == [0, 1, 2]
    assert workers_for("CartPole-v1", 2, 8) == 2
    assert workers_for("Hopper-v4", None, 8, {"healthy_z_range": (0.7, 2.0)}) == 0
    monkeypatch.setattr("capo.recipes.available_cores", lambda: 1)
    assert workers_for("Hopper-v4", None, 8) == 0


def test_the_classes_take_workers_for_an_id_only():
    with pytest.raises(UsageError, match="so env must be an id"):
        PPO("MlpPolicy", lambda: gym.make("CartPole-v1"), workers=1)
    model = PPO("MlpPolicy", "CartPole-v1", workers=1, backend="gymnasium", num_envs=2)
    assert isinstance(model._open(), ProcessEnv)
    assert len(model.evaluate(episodes=2).returns) == 2
