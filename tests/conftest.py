"""Two host devices, checked array shapes, and one store of compiled programs for all workers."""

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("capo", "typecheck.checked")
jax.config.update("jax_num_cpu_devices", 2)


def pytest_configure(config):
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("xla")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
