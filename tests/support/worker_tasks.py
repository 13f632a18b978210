"""Tasks for worker processes: Parts-v0 has nested observations, Fault-v0 fails at a chosen step.

Registered by name and by class, with nothing imported that a worker would not need.
"""

import ctypes
import os
import signal
import time

import gymnasium as gym
import numpy as np

FOR_EVER = 3600


class Parts(gym.Env):
    """Episodes of seven steps; rewards earlier actions, which it stores without a copy."""

    observation_space = gym.spaces.Dict(
        {
            "place": gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "seen": gym.spaces.Tuple(
                [gym.spaces.Discrete(5), gym.spaces.Box(0, 255, (2, 3), np.uint8)]
            ),
            "lamps": gym.spaces.MultiBinary(3),
        }
    )
    action_space = gym.spaces.MultiDiscrete([3, 4])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.given = []
        return self.see(np.float64), {}

    def step(self, action):
        self.given.append(action)
        paid = float(sum(kept @ [1, 10] for kept in self.given)) + self.np_random.normal()
        steps = len(self.given)
        # The type changes from what a reset showed, as it does where nobody looked.
        return self.see(np.float32), paid, self.np_random.random() < 0.1, steps == 7, {}

    def see(self, kind):
        place = self.np_random.normal(size=2).astype(kind)
        picture = self.np_random.integers(0, 256, (2, 3), np.uint8)
        lamps = self.np_random.integers(0, 2, 3, np.int8)
        return {
            "place": place,
            "seen": (int(self.np_random.integers(5)), picture),
            "lamps": lamps,
        }


class Fault(gym.Env):
    """Counts its steps; environments with the seeds `bad` fail at step `at`."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault="none", bad=(), at=3):
        self.fault, self.bad, self.at = getattr(self, fault), bad, at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.seed = 0, seed
        return self.see(), {}

    def step(self, action):
        self.t += 1
        return self.see(), 0.0, False, False, {}

    def see(self):
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.fault(obs) if self.seed in self.bad and self.t == self.at else obs

    def none(self, obs):
        return obs

    def trip(self, obs):
        raise ValueError("tripped")

    def grow(self, obs):
        return np.append(obs, obs)

    def tell(self, obs):
        return np.array(["one", "two"])

    def die(self, obs):
        os.kill(os.getpid(), signal.SIGKILL)

    def hang(self, obs):
        time.sleep(FOR_EVER)

    def hold(self, obs):
        """Hangs in C and holds the interpreter's lock."""
        ctypes.PyDLL(None).sleep(FOR_EVER)


class Text(Fault):
    """Has text as the observation."""

    observation_space = gym.spaces.Text(5)


gym.register("Parts-v0", Parts, disable_env_checker=True)
gym.register("Fault-v0", "support.worker_tasks:Fault", disable_env_checker=True)
