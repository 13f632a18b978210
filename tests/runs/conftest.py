"""A killed run, for the tests of checkpoints and of resuming."""

import shutil
from pathlib import Path

import pytest

from support.resuming import config_of, play


@pytest.fixture(scope="module")
def renew_often():
    """New episodes after every sixth generation of sixteen steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("capo.rollout.RESTART_STEPS", 96)
        yield


@pytest.fixture(scope="module")
def killed(renew_often, tmp_path_factory):
    """A run with checkpoints after 2, 4 and 6 generations that was killed after 7."""
    path = tmp_path_factory.mktemp("killed") / "run"
    play(config_of("ppo", backend="gymnasium"), path, every=2, until=7)
    return path


@pytest.fixture
def run(killed, tmp_path):
    """A copy of the killed run."""
    return Path(shutil.copytree(killed, tmp_path / "run"))
