"""MinAtar's tasks."""

import pytest

from capo.envs.backends import make

pytest.importorskip("minatar", reason="make test-peers installs it")


def test_installed_packages_register_their_environments():
    """By the entry points `gymnasium.envs`."""
    env = make("MinAtar/Breakout-v1", 1, 0)
    assert env.observation_space.shape == (10, 10, 4)
