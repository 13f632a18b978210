"""Vector environments behind one small protocol, with same-step autoreset.

`step` never returns a reset as a transition: `next_obs` is the observation after the action, the
true final one where an episode ended, and `obs` is the observation to act on next.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from capo.errors import EnvTimeoutError


def failure_message(
    name: str, indices: Sequence[int], step: int, error: Exception, reason: str = ""
) -> str:
    """Describes an error in one line: the task, the environments if known, the step, the reason.

    `reason` replaces the error's own type and text.
    """
    listed = ", ".join(map(str, indices))
    who = f"environment{'s' * (len(indices) > 1)} {listed}" if indices else "the environments"
    untyped = reason or isinstance(error, EnvTimeoutError)
    cause = f": {reason or error}" if untyped else f" with {type(error).__name__}: {error}"
    return f"{name}: {who} failed {describe_step(step)}{cause}"


def describe_step(step: int) -> str:
    """`at step 12`, or `at the reset` for step 0."""
    return f"at step {step}" if step else "at the reset"


class Step(NamedTuple):
    """Result of one step of all environments; an observation is an array, or a dict or tuple."""

    obs: Any
    next_obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray | None = None
    """`info["is_success"]` of the episodes that ended as a number, NaN where there is none."""


def success_of(info: Mapping[str, Any]) -> float:
    """`info["is_success"]` of one environment as a number; NaN without one."""
    return float(info.get("is_success", np.nan))


def successes_of(info: Mapping[str, Any], count: int) -> np.ndarray | None:
    """`info["is_success"]` of a Gymnasium vector environment, NaN where there is none."""
    values = info.get("is_success")
    if values is None:
        return None
    known = np.broadcast_to(info.get("_is_success", True), count)
    return np.where(known, np.asarray(values, float), np.nan)


@runtime_checkable
class VectorEnv(Protocol):
    """Several copies of one environment, stepped together."""

    backend: str
    num_envs: int
    observation_space: gym.Space
    action_space: gym.Space

    def reset(self, seed: int | None = None) -> Any: ...

    def step(self, actions: np.ndarray) -> Step: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def quiet(spec: EnvSpec | None = None) -> Iterator[None]:
    """Silences Python's and MuJoCo's warnings inside the block, such as those about versions.

    MuJoCo also writes its warnings to MUJOCO_LOG.TXT in the working folder. With the `spec` of a
    task, MuJoCo is silenced before the task's first environment is made. Without it, MuJoCo is
    silenced only if it is already imported: most tasks do not need it, and EnvPool's own copy of
    MuJoCo prints no warnings.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if spec is not None and isinstance(spec.entry_point, str):
            with contextlib.suppress(Exception):  # gym.make raises it again and reports it
                load_env_creator(spec.entry_point)
        mujoco: Any = sys.modules.get("mujoco")
        if mujoco is None:
            yield
            return
        previous = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda _: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(previous)
