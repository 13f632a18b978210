"""Environments that hang, die or raise: the error names the one, and no process is left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from capo import EnvError, generations
from capo.envs.adapters import env_source
from capo.envs.envpool import EnvPoolEnv
from capo.envs.gymnasium import GymnasiumEnv
from capo.envs.timeouts import Alarm, TimeoutEnv
from capo.errors import EnvTimeoutError
from support.commands import with_tests_on_path
from support.faulty_probes import FOREVER, die, hang, play, three, trip, vector_of
from support.probes import Probe, small

SOON = 0.3
"""Seconds: long enough for a probe, short enough to wait for."""


def limit(message):
    """A short time limit for tests that wait for it, otherwise a long one."""
    return SOON if "no answer" in message else FOREVER


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"at_step": hang}, r"at step 3: no answer within 0.3 s \(env_timeout\)$"),
        ({"at_reset": hang}, r"at the reset: no answer within 0.3 s \(env_timeout\)$"),
        ({"at_step": trip}, "at step 3 with ValueError: tripped$"),
        ({"at_reset": trip}, "at the reset with ValueError: tripped$"),
        ({"at_reset": lambda _: None}, "at the reset with TypeError: 'NoneType'"),
    ],
)
def test_a_faulty_environment_in_this_process(fault, message):
    env = TimeoutEnv(vector_of(three(**fault)), "probe", limit(message))
    with pytest.raises(EnvError, match=f"^probe: environment 1 failed {message}"):
        play(env)


def test_a_run_has_a_time_limit():
    config = small(num_envs=3, num_steps=16)
    for fault in ({"at_step": hang}, {"at_reset": hang}):
        with pytest.raises(
            EnvError, match=r"^probe: environment 1 failed .* no answer within 0.3 s"
        ):
            next(generations(config, vector_of(three(**fault)), env_timeout=SOON))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"at_step": lambda f: (np.zeros(3), *f[1:])}, "at step 3"),
        ({"at_reset": lambda f: (np.zeros(3), {})}, "at the reset"),
    ],
)
def test_a_wrong_shape(fault, message):
    with pytest.raises(EnvError, match=rf"^probe: environment 1 violates .* {message}: .*\(3,"):
        play(vector_of(three(**fault)))


def test_an_environment_that_swallows_the_first_alarm_gets_another():
    def stubborn(found):
        try:
            hang(found)
        except Exception:
            hang(found)

    with pytest.raises(EnvError, match="environment 1 failed at step 3: no answer"):
        play(TimeoutEnv(vector_of(three(stubborn)), "probe", SOON))


def test_an_earlier_alarm_is_restored():
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, FOREVER)
        with pytest.raises(EnvTimeoutError), Alarm(0.1) as alarm:
            alarm.limit(time.sleep, FOREVER)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 0 < left < FOREVER
        with Alarm(FOREVER) as alarm:
            assert alarm.limit(len, [1]) == 1
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        os.kill(os.getpid(), signal.SIGALRM)
        assert heard == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_and_no_limit_set_no_alarm():
    done = []

    def work():
        play(TimeoutEnv(vector_of([Probe] * 3), "probe", SOON))
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
    before = signal.getsignal(signal.SIGALRM)
    with Alarm(0.0):
        assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*ERROR:UserWarning")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"at_step": hang}, r"at step 3: no answer within 0.3 s"),
        ({"at_reset": hang}, r"at the reset: no answer within 0.3 s"),
        ({"at_step": die}, r"at step 3: the worker process ended \(exit code -9\)"),
        ({"at_step": trip}, "at step 3 with ValueError: tripped"),
    ],
)
def test_a_faulty_environment_in_its_own_process(fault, message):
    given = AsyncVectorEnv(three(**fault), autoreset_mode=AutoresetMode.SAME_STEP)
    env = env_source(given).make(3, 0)
    with pytest.raises(EnvError, match=f"^AsyncVectorEnv: environment 1 failed {message}"):
        play(TimeoutEnv(env, "probe", limit(message)))
    assert multiprocessing.active_children() == []
    env.close()
    given.close()


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("killed", [False, True])
def test_closing_worker_processes(killed):
    given = AsyncVectorEnv([Probe] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env = env_source(given).make(3, 0)
    env.reset()
    if killed:
        given.processes[2].kill()
        given.processes[2].join()
    env.close()
    assert multiprocessing.active_children() == []


def test_a_vector_environment_in_this_process():
    given = SyncVectorEnv(three(trip), autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(
        EnvError, match=r"^SyncVectorEnv: the environments failed at step 3 with Val"
    ):
        play(env_source(given).make(3, 0))


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_an_error_in_envpool_names_the_task():
    pytest.importorskip("envpool")
    env = EnvPoolEnv.make("CartPole-v1", 2, 0)
    env.reset()
    with pytest.raises(
        EnvError, match=r"^CartPole-v1: the environments failed at step 1 with Runti"
    ):
        env.step(np.zeros((2, 7)))
    env.close()


def stopped(code, seconds=60):
    """Runs code with `tests` on its path in a process that has to end in time."""
    script = textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script],
        env=with_tests_on_path(),
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def test_code_that_holds_the_interpreter_is_ended():
    """C code that never releases the interpreter's lock: no signal handler and no thread runs."""
    done = stopped(
        """
        import ctypes, signal
        from capo.envs.timeouts import TimeoutEnv
        from support.faulty_probes import play, three, vector_of
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # or it would end the sleep
        stuck = lambda _: ctypes.PyDLL(None).sleep(1000)
        play(TimeoutEnv(vector_of(three(stuck)), "probe", 0.5, hard=True))
        """
    )
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
    assert 'faulty_probes.py", line' in done.stderr, "where it hung"


def test_the_hard_limit_is_off_while_nothing_is_collected():
    done = stopped(
        """
        import time
        from capo.envs.timeouts import TimeoutEnv
        from support.faulty_probes import play, vector_of
        from support.probes import Probe
        env = TimeoutEnv(vector_of([Probe] * 3), "probe", 0.2, hard=True)
        with env.armed():
            play(env)
        time.sleep(1)
        print("still here")
        """
    )
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr


@pytest.mark.parametrize("fault", ["hang", "die"])
def test_a_process_with_broken_workers_ends(fault):
    """Without closing the environment, nothing hangs and no worker outlives the process."""
    done = stopped(
        f"""
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode
        from capo.envs.adapters import env_source
        from capo.envs.timeouts import TimeoutEnv
        from support.faulty_probes import {fault}, play, three
        given = AsyncVectorEnv(three({fault}), autoreset_mode=AutoresetMode.SAME_STEP)
        print(*(process.pid for process in given.processes), flush=True)
        play(TimeoutEnv(env_source(given).make(3, 0), "probe", 0.5))
        """
    )
    assert done.returncode == 1
    assert "EnvError: AsyncVectorEnv: environment 1 failed at step 3" in done.stderr
    assert "Exception ignored" not in done.stderr
    for pid in done.stdout.split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_an_error_in_gymnasium_names_the_task():
    class Broken(gym.Wrapper):
        def step(self, action):
            return trip(action)

    env = GymnasiumEnv(lambda: Broken(gym.make("CartPole-v1")), 3, 0, "CartPole-v1")
    with pytest.raises(EnvError, match=r"^CartPole-v1: environment 0 failed at step 1 with Value"):
        play(env)
