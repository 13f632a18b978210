"""Three host devices, checked array shapes, one cache of compiled programs for all tests."""

import importlib
import os

import jax
import pytest
from jaxtyping import install_import_hook

pytest.register_assert_rewrite("support")
importlib.import_module("support.typecheck")  # the hook looks it up in its package
install_import_hook("capo", "support.typecheck.checked")
jax.config.update("jax_num_cpu_devices", 3)


def pytest_configure(config):
    store = str(config.cache.mkdir("xla"))
    jax.config.update("jax_compilation_cache_dir", store)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    # The commands that tests start read these.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = store
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
