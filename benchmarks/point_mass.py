"""Two control tasks with composite actions: Thrusters-v0 and Joystick-v0.

A point mass in the plane starts at rest in [−1, 1]² and has to be moved to the origin and held
there. Each of 100 steps has the reward −(distance + 0.05 · share of the controls that are on).
"""

import gymnasium as gym
import numpy as np

STEPS = 100
DT, PUSH, DRAG = 0.1, 1.0, 0.1


class PointMass(gym.Env):
    """Base class: subclasses define the controls and their force."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.speed = 0, np.zeros(2)
        self.place = self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action):
        force, used = self.push(np.asarray(action))
        self.speed = (1 - DRAG) * self.speed + DT * PUSH * force
        self.place = self.place + DT * self.speed
        self.t += 1
        reward = -float(np.hypot(*self.place) + 0.05 * used)
        return self._seen(), reward, False, self.t == STEPS, {}

    def push(self, action) -> tuple[np.ndarray, float]:
        """The force of an action, and the share of the controls that are on."""
        raise NotImplementedError

    def _seen(self):
        return np.concatenate([self.place, self.speed]).astype(np.float32)


class Thrusters(PointMass):
    """Four thrusters, each on or off: east, west, north, south."""

    action_space = gym.spaces.MultiBinary(4)

    def push(self, action):
        east, west, north, south = action.astype(float)
        return np.array([east - west, north - south]), action.mean()


class Joystick(PointMass):
    """A stick of five positions for each axis."""

    action_space = gym.spaces.MultiDiscrete([5, 5])

    def push(self, action):
        force = (action - 2) / 2
        return force, np.abs(force).mean()


gym.register("Thrusters-v0", "benchmarks.point_mass:Thrusters")
gym.register("Joystick-v0", "benchmarks.point_mass:Joystick")
