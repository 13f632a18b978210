"""Cores and JAX devices: the experts' and the critic's."""

import contextlib
import os
from typing import Any

import jax


def available_cores() -> int:
    """Number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def split_cpu() -> None:
    """Splits the host CPU into a JAX device for each core, for experts, and one for the critic.

    The critic's device has no core of its own; the operating system schedules it. A device count
    set by the user is kept. Has no effect once JAX has started its backend.
    """
    if jax.config.jax_num_cpu_devices < 1:  # pyright: ignore[reportAttributeAccessIssue]
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", available_cores() + 1)


def expert_devices() -> int:
    """Number of devices for experts: every accelerator, or at most one per CPU core."""
    count = jax.device_count()
    return min(count, available_cores()) if jax.default_backend() == "cpu" else count


def critic_device() -> Any:
    """Device of the critic: the last one, which experts use only if it is the only one."""
    return jax.devices()[-1]
