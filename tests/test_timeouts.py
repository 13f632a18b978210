"""Environments that hang, die or break: the run stops, says which one, and nothing is left over."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from capo import EnvError, generations
from capo.adapters import source_of
from capo.envs import EnvPoolEnv, EnvTimeoutError, GymnasiumEnv
from capo.timeouts import Alarm, TimedEnv
from probes import Probe, small

FOREVER = 1000.0
ACTIONS = np.zeros(3, int)
SOON = 0.3
"""Long enough for a probe, short enough to wait for."""


class Odd(Probe):
    """Does something at its third step, or when it is reset."""

    length = 100

    def __init__(self, at_step=None, at_reset=None):
        self.at_step, self.at_reset = at_step, at_reset

    def reset(self, **kwargs):
        found = super().reset(**kwargs)
        return self.at_reset(found) if self.at_reset else found

    def step(self, action):
        found = super().step(action)
        return self.at_step(found) if self.at_step and self.t == 3 else found


def hang(_):
    time.sleep(FOREVER)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def trip(_):
    raise ValueError("tripped")


def three(at_step=None, at_reset=None):
    """Three of them; the second is the odd one."""
    return [Probe, lambda: Odd(at_step, at_reset), Probe]


def in_turn(factories):
    made = iter(factories)
    return GymnasiumEnv(lambda: next(made)(), len(factories), 0, "probe")


def limit(message):
    """Short only where it is waited for."""
    return SOON if "no answer" in message else FOREVER


def play(env):
    env.reset()
    for _ in range(5):
        env.step(ACTIONS)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"at_step": hang}, r"at step 3: no answer within 0.3 s \(--env-timeout\)$"),
        ({"at_reset": hang}, r"at the reset: no answer within 0.3 s \(--env-timeout\)$"),
        ({"at_step": trip}, "at step 3 with ValueError: tripped$"),
        ({"at_reset": trip}, "at the reset with ValueError: tripped$"),
        ({"at_reset": lambda _: None}, "at the reset with TypeError: 'NoneType'"),
    ],
)
def test_an_environment_in_this_process(odd, message):
    env = TimedEnv(in_turn(three(**odd)), "probe", limit(message))
    with pytest.raises(EnvError, match=f"^probe: environment 1 failed {message}"):
        play(env)


def test_a_run_has_the_limit():
    config = small(num_envs=3, num_steps=16)
    for odd in ({"at_step": hang}, {"at_reset": hang}):
        with pytest.raises(
            EnvError, match=r"^probe: environment 1 failed .* no answer within 0.3 s"
        ):
            next(generations(config, in_turn(three(**odd)), env_timeout=SOON))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"at_step": lambda f: (np.zeros(3), *f[1:])}, "at step 3"),
        ({"at_reset": lambda f: (np.zeros(3), {})}, "at the reset"),
    ],
)
def test_a_wrong_shape(odd, message):
    with pytest.raises(EnvError, match=rf"^probe: environment 1 does not .* {message}: .*\(3,"):
        play(in_turn(three(**odd)))


def test_an_environment_that_swallows_the_first_alarm_gets_another():
    def stubborn(found):
        try:
            hang(found)
        except Exception:
            hang(found)

    with pytest.raises(EnvError, match="environment 1 failed at step 3: no answer"):
        play(TimedEnv(in_turn(three(stubborn)), "probe", SOON))


def test_the_alarm_of_others_comes_back():
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


def test_another_thread_and_no_limit_go_without():
    done = []

    def work():
        play(TimedEnv(in_turn([Probe] * 3), "probe", SOON))
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
    ("odd", "message"),
    [
        ({"at_step": hang}, r"at step 3: no answer within 0.3 s"),
        ({"at_reset": hang}, r"at the reset: no answer within 0.3 s"),
        ({"at_step": die}, r"at step 3: the worker process ended \(exit code -9\)"),
        ({"at_step": trip}, "at step 3 with ValueError: tripped"),
    ],
)
def test_an_environment_in_a_process_of_its_own(odd, message):
    given = AsyncVectorEnv(three(**odd), autoreset_mode=AutoresetMode.SAME_STEP)
    env = source_of(given).make(3, 0)
    with pytest.raises(EnvError, match=f"^AsyncVectorEnv: environment 1 failed {message}"):
        play(TimedEnv(env, "probe", limit(message)))
    assert multiprocessing.active_children() == []
    env.close()
    given.close()


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("killed", [False, True])
def test_closing_worker_processes(killed):
    given = AsyncVectorEnv([Probe] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env = source_of(given).make(3, 0)
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
        play(source_of(given).make(3, 0))


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_an_envpool_is_named():
    pytest.importorskip("envpool")
    env = EnvPoolEnv.make("CartPole-v1", 2, 0)
    env.reset()
    with pytest.raises(
        EnvError, match=r"^CartPole-v1: the environments failed at step 1 with Runti"
    ):
        env.step(np.zeros((2, 7)))
    env.close()


def stopped(code, seconds=60):
    """Runs code that has `tests` on its path, in a process that has to end."""
    script = textwrap.dedent(code)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def test_code_that_holds_the_interpreter_is_ended():
    """C code that never gives the lock back: no signal handler runs, no thread does."""
    done = stopped(
        """
        import ctypes, signal
        from test_timeouts import TimedEnv, in_turn, play, three
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # or it would end the sleep
        stuck = lambda _: ctypes.PyDLL(None).sleep(1000)
        play(TimedEnv(in_turn(three(stuck)), "probe", 0.5, hard=True))
        """
    )
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
    assert 'test_timeouts.py", line' in done.stderr, "where it hung"


def test_the_hard_limit_is_off_while_nothing_is_collected():
    done = stopped(
        """
        import time
        from test_timeouts import TimedEnv, Probe, in_turn, play
        env = TimedEnv(in_turn([Probe] * 3), "probe", 0.2, hard=True)
        with env.watched():
            play(env)
        time.sleep(1)
        print("still here")
        """
    )
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr


@pytest.mark.parametrize("fault", ["hang", "die"])
def test_a_process_with_broken_workers_ends(fault):
    """The caller closes nothing; nothing hangs, and no worker outlives the process."""
    done = stopped(
        f"""
        import test_timeouts as t
        given = t.AsyncVectorEnv(t.three(t.{fault}), autoreset_mode=t.AutoresetMode.SAME_STEP)
        print(*(process.pid for process in given.processes), flush=True)
        t.play(t.TimedEnv(t.source_of(given).make(3, 0), "probe", 0.5))
        """
    )
    assert done.returncode == 1
    assert "EnvError: AsyncVectorEnv: environment 1 failed at step 3" in done.stderr
    assert "Exception ignored" not in done.stderr
    for pid in done.stdout.split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_gymnasium_tasks_are_named():
    class Broken(gym.Wrapper):
        def step(self, action):
            return trip(action)

    env = GymnasiumEnv(lambda: Broken(gym.make("CartPole-v1")), 3, 0, "CartPole-v1")
    with pytest.raises(EnvError, match=r"^CartPole-v1: environment 0 failed at step 1 with Value"):
        play(env)
