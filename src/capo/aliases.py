"""Names of Stable-Baselines3: those that mean the same here, and what the others are."""

import math
import warnings
from collections.abc import Callable
from typing import Any

from capo.errors import UsageError

SAME = {
    "n_envs": "num_envs",
    "n_steps": "num_steps",
    "n_epochs": "epochs",
    "clip_range": "clip",
    "ent_coef": "entropy_coef",
    "cg_max_steps": "trpo_cg_iters",
    "cg_damping": "trpo_damping",
}
"""Settings of capo by their names in Stable-Baselines3."""
OTHER = {
    "clip_range_vf": "is always on here, with the range of clip",
    "stats_window_size": "is always 100 here",
    "tensorboard_log": "is learn(run_dir=…) here: a run folder with the event file",
    "total_steps": "is given to learn(total_timesteps)",
    "total_timesteps": "is given to learn(total_timesteps)",
    "algo": "is the class: capo.CAPO, capo.PPO, …",
    "env_id": "is the second argument, env",
    "network": 'is the first argument, "MlpPolicy" or "CnnPolicy"',
}
"""What to use instead of names that mean something else."""
BATCH_SIZE = "batch_size"
"""Samples of a minibatch, which become their number once the size of a batch is known."""


def _normalize_advantage(value: Any) -> dict[str, Any]:
    return {"advantage_norm": "minibatch" if value else "none"}


def _use_sde(value: Any) -> dict[str, Any]:
    if value:
        raise UsageError(
            "use_sde is not available; action_noise=0.5 explores with noise correlated in time"
        )
    return {}


def _device(value: Any) -> dict[str, Any]:
    if str(value) not in ("auto", "cpu"):
        raise UsageError(
            f"device is {value!r}; JAX chooses it: install jax for your accelerator, or set "
            "JAX_PLATFORMS in the environment"
        )
    return {}


def _ignored(_: Any) -> dict[str, Any]:
    return {}


def _policy_kwargs(value: Any) -> dict[str, Any]:
    """hidden, activation and initial_std."""
    fields: dict[str, Any] = {}
    for name, given in dict(value or {}).items():
        if name == "net_arch":
            fields["hidden"] = _widths(given)
        elif name == "activation_fn":
            fields["activation"] = str(getattr(given, "__name__", given)).lower()
        elif name == "log_std_init":
            fields["initial_std"] = math.exp(given)
        else:
            raise UsageError(
                f"policy_kwargs has {name}; here are hidden, activation, initial_std and "
                "state_dependent_std, or a network of your own: policy=…"
            )
    return fields


def _widths(given: Any) -> tuple[int, ...]:
    if isinstance(given, dict):
        if given.get("pi") != given.get("vf"):
            raise UsageError(
                f"net_arch has pi={given.get('pi')} and vf={given.get('vf')}; hidden is for both "
                "networks, which share nothing; networks that differ are given as policy=…"
            )
        given = given.get("pi", ())
    return tuple(given)


MEANT: dict[str, Callable[[Any], dict[str, Any]]] = {
    "normalize_advantage": _normalize_advantage,
    "policy_kwargs": _policy_kwargs,
    "use_sde": _use_sde,
    "device": _device,
    "verbose": _ignored,
}
"""Names whose values mean something here: the fields that they are."""


def translated(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields by their names in capo; a name that means something else here is an error."""
    named: dict[str, Any] = {}
    for given, value in fields.items():
        if given in OTHER:
            raise UsageError(f"{given} {OTHER[given]}")
        meant = MEANT[given](value) if given in MEANT else {SAME.get(given, given): value}
        if taken := next((name for name in meant if name != given and name in fields), None):
            raise UsageError(f"{taken} is given twice, also as {given}")
        if meant and given not in meant:
            warnings.warn(f"{given} is {', '.join(meant)} in capo", stacklevel=4)
        named |= meant
    return _with_courses(named)


def _with_courses(fields: dict[str, Any]) -> dict[str, Any]:
    """A learning rate that is a function of the progress left becomes a rate and a schedule."""
    rate: Any = fields.get("learning_rate")
    clip: Any = fields.get("clip")
    if callable(clip):
        fields["clip"] = _course("clip", clip, ("constant",))[0]
    if callable(rate):
        value, course = _course("learning_rate", rate, ("constant", "linear"))
        if fields.setdefault("schedule", course) != course:
            raise UsageError(f"learning_rate is a function that is {course}; leave schedule out")
        fields["learning_rate"] = value
    return fields


def _course(name: str, function: Callable[..., Any], known: tuple[str, ...]):
    """The first value of a function of the progress left (1 to 0), and its course."""
    try:
        values = [float(function(left)) for left in (1.0, 0.75, 0.5, 0.25, 0.0)]
    except Exception as error:
        raise UsageError(f"{name} is a function that fails ({error}); give a number") from error
    courses = {
        "constant": [values[0]] * 5,
        "linear": [values[0] * left for left in (1.0, 0.75, 0.5, 0.25, 0.0)],
    }
    for course in known:
        if all(map(math.isclose, values, courses[course])):
            return values[0], course
    wanted = f"a number{'; its course is schedule' if 'linear' in known else ''}"
    raise UsageError(f"{name} is a function that is not {' or '.join(known)}; it must be {wanted}")


def without_batch_size(fields: dict[str, Any], samples: int) -> dict[str, Any]:
    """The fields with a number of minibatches instead of their size, for a batch of `samples`."""
    if BATCH_SIZE not in fields:
        return fields
    fields = dict(fields)
    size = fields.pop(BATCH_SIZE)
    if "minibatches" in fields:
        raise UsageError("minibatches is given twice, also as batch_size")
    if type(size) is not int or not 1 <= size <= samples or samples % size:
        raise UsageError(
            f"batch_size is {size!r}; it must divide the {samples} samples of num_envs × num_steps"
        )
    warnings.warn(f"batch_size={size} is minibatches={samples // size} in capo", stacklevel=5)
    return {**fields, "minibatches": samples // size}
