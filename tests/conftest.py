"""Three host devices, checked array shapes, one cache of compiled programs; limits of time."""

import importlib
import os
import resource

import jax
import pytest
from jaxtyping import install_import_hook

pytest.register_assert_rewrite("support")
importlib.import_module("support.typecheck")  # the hook looks it up in its package
install_import_hook("capo", "support.typecheck.checked")
jax.config.update("jax_num_cpu_devices", 3)
MOST, MOST_IF_SLOW = 20, 60
"""Seconds of CPU time that a test may take, with the processes that it starts and its fixtures."""


def pytest_configure(config):
    store = str(config.cache.mkdir("xla"))
    jax.config.update("jax_compilation_cache_dir", store)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_disable_most_optimizations", True)
    # The commands that tests start read these.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = store
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"


def _cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fails a test that took more CPU time than it may."""
    report = yield
    spent = _cpu_seconds() - item.stash[BEGAN]
    most = MOST_IF_SLOW if item.get_closest_marker("slow") else MOST
    if call.when == "call" and report.passed and spent > most:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} took {spent:.0f} s of CPU time; at most {most} s"
    return report


BEGAN = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[BEGAN] = _cpu_seconds()


def pytest_terminal_summary(terminalreporter, config):
    if config.option.markexpr == "not slow" and not hasattr(config, "workerinput"):
        left = "make test-slow, make test-peers, make test-browser"
        terminalreporter.write_line(f"tests that are not here: {left}; .ci/run runs all of them")


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A temporary working folder, and a copy of the table of methods."""
    from capo import METHODS

    monkeypatch.chdir(tmp_path)
    methods = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(methods)
