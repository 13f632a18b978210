"""A finished training run, for the tests of several commands."""

import pytest

from support.commands import TINY, capo


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder that holds `run`, and the completed process of the command."""
    folder = tmp_path_factory.mktemp("cli")
    done = capo("train", "CartPole-v1", *TINY, "--run-dir", "run", "--seed", "3", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done
