"""Tasks that fail at a chosen step: Raises-v0, NaN-v0, Shape-v0, Sleeps-v0, Holds-v0; and Slow-v0.

The environment variables are BREAK_AT, the step, and BREAK_STEP_SECONDS, the time of a slow step.
"""

import itertools
import os
import time

import gymnasium as gym
import numpy as np

FOR_EVER = 3600


class Sound(gym.Env):
    """Episodes of ten steps; subclasses change the step BREAK_AT."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.steps, self.at = 0, int(os.environ.get("BREAK_AT", "-1"))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.see(), {}

    def step(self, action):
        self.t += 1
        self.steps += 1
        obs = self.see()
        if self.steps == self.at:
            obs = self.break_down(obs)
        return obs, float(obs[0] * action), False, self.t == 10, {}

    def see(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def break_down(self, obs):
        return obs


class Raises(Sound):
    def break_down(self, obs):
        raise ZeroDivisionError("the simulator gave up")


class NotANumber(Sound):
    def break_down(self, obs):
        return obs * np.nan


class Shape(Sound):
    def break_down(self, obs):
        return np.append(obs, obs)


class Sleeps(Sound):
    """Hangs in Python."""

    def break_down(self, obs):
        time.sleep(FOR_EVER)
        return obs


class Holds(Sound):
    """Hangs in C and holds the interpreter's lock, so that no Python code can run."""

    def break_down(self, obs):
        return obs * sum(itertools.repeat(0))


class Slow(Sound):
    """Slow steps, so that a signal arrives within a generation."""

    def step(self, action):
        time.sleep(float(os.environ.get("BREAK_STEP_SECONDS", "0.01")))
        return super().step(action)


for _name, _kind in {
    "Raises": Raises, "NaN": NotANumber, "Shape": Shape, "Sleeps": Sleeps, "Holds": Holds,
    "Slow": Slow,
}.items():  # fmt: skip
    gym.register(f"{_name}-v0", _kind)
