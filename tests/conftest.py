"""Two host devices and checked array shapes for every test."""

import os

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("capo", "beartype.beartype")
jax.config.update("jax_num_cpu_devices", 2)
if cache := os.environ.get("CAPO_TEST_CACHE"):
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
