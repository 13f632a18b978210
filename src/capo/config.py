"""The configuration of a run."""

import dataclasses
import functools
import json
import math
import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.core.settings import NetworkSettings, PolicySettings, ValueSettings
from capo.errors import UsageError, name_of
from capo.fields import MOST, check_range, setting, settings, wrong_type
from capo.presets import preset_values

Kind = TypeVar("Kind", bound="Config")
REMOVED: dict[str, Any] = {
    "critic_epochs": 0,
    "critic_experts": 1,
    "outer_momentum": 0.0,
    "ema": 0.0,
    "delta_schedule": "constant",
    "delta_std": 0.0,
}
"""Settings of earlier versions that are no more, with the value of a file that did not use them."""
OFF: dict[str, Any] = {"target_kl": 0.0, "adaptive_lr": 0.0, "outer_lr": 1.0}
"""Values that meant "off" before None did."""
LONGEST_NAME, DEEPEST = 200, 100
"""Upper limits: characters of a name, hidden layers."""


def parse_steps(text: str) -> int:
    """Reads 1000000, 1_000_000, 1e6, 500k and 1M as a number of steps."""
    scale = {"k": 10**3, "m": 10**6, "g": 10**9}.get(text[-1:].lower())
    try:
        value = float(text[:-1] if scale else text) * (scale or 1)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise UsageError(f"{text!r} is not a number of steps; write 1_000_000, 1e6 or 1M")
    return int(value)


STEPS = PrimitiveConstructorSpec(
    nargs=1,
    metavar="STEPS",
    instance_from_str=lambda words: parse_steps(words[0]),
    is_instance=lambda value: isinstance(value, int | None),
    str_from_instance=lambda steps: ["None" if steps is None else f"{steps:_}"],
)
"""How a number of steps, or None, is written on the command line."""
Schedule = Literal["linear", "constant", "trapezoid"]
Steps = Annotated[int, tyro.conf.arg(name="total-steps", aliases=["-n"]), STEPS]


@dataclass(frozen=True)
class RunSettings:
    """What is run."""

    env_id: Annotated[str, tyro.conf.arg(metavar="ENV"), tyro.conf.Positional] = setting(
        in_name=False, compared=False, on_resume="new-episodes"
    )
    """A Gymnasium environment id, such as Hopper-v4."""
    algo: str = setting("capo", in_name=False, compared=False, on_resume="never")
    """capo, capo-avg, ppo, ppo-kx, best-of-k, ppo-swa or trpo."""
    total_steps: Steps = setting(1_000_000, in_name=False, compared=False)
    """Environment steps to train for; takes 1_000_000, 1e6 and 1M."""
    seed: int = setting(
        1, least=0, most=2**31 - 1, in_name=False, compared=False, on_resume="new-episodes"
    )
    """Seed of everything random in the run."""
    preset: Literal["auto", "default", "corrected", "paper"] = setting(
        "default", decisive=False, in_name=False, on_resume="never"
    )
    """auto: the zoo's settings of the task if it has any, else default: what we recommend; paper:
    the closest reading of the paper; corrected: the paper's experts with time limits bootstrapped,
    an accurate distillation and the incumbent's moments."""
    backend: Literal["auto", "envpool", "gymnasium"] = setting(
        "auto", decisive=False, in_name=False, compared=False, on_resume="new-episodes"
    )
    """Who steps the environments; auto takes EnvPool where it is installed and has the task."""
    workers: int | None = setting(
        None, least=0, decisive=False, in_name=False, compared=False, on_resume="always"
    )
    """Processes that help step Gymnasium tasks; None: one for each other core (MuJoCo); 0: none."""
    env_kwargs: Annotated[str, tyro.conf.arg(metavar="JSON")] = setting(
        "", in_name=False, on_resume="new-episodes"
    )
    """Arguments of the environment, as JSON: {"g": 9.81}."""
    wrappers: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(name="wrapper", metavar="MODULE:CLASS"),
    ] = setting((), in_name=False, on_resume="new-episodes")
    """Wrap the environment, the first one innermost: module:Class, or 'module:Class {"x": 1}'."""
    diagnostics: int | None = setting(None, least=0, compared=False)
    """Split every N-th update into signal and waste; None: ten and the last, evenly; 0: none."""


@dataclass(frozen=True)
class RolloutSettings:
    """The batch of a generation."""

    num_envs: int = setting(8, least=1, most=MOST, on_resume="never")
    """Environments stepped side by side."""
    num_steps: int = setting(None, least=1, most=MOST, on_resume="never")
    """Steps each environment contributes to a batch."""
    action_noise: float = setting(None, least=0.0, most=2.0, before=0.0)
    """β: action noise with the spectrum 1/f^β over time; 0: white, 0.5: between white and pink."""
    normalize_reward: bool = True
    """Divide rewards by the running deviation of the return, clipped at 10."""


@dataclass(frozen=True)
class ScheduleSettings:
    """What changes over the generations."""

    learning_rate: float = setting(3e-4, above=0.0)
    """Adam's step size, policy and critic."""
    schedule: Schedule = "linear"
    """Of the learning rate: linear to 0, constant, or trapezoid (constant, then linear to 0)."""
    decay: float = setting(0.3, least=0.0, most=1.0)
    """Last share of the generations, in which a trapezoid falls to 0."""
    adaptive_lr: float | None = setting(None, above=0.0)
    """Target KL: the rate is divided by 1.5 above twice it, multiplied below half; None: off."""
    entropy_coef: float = setting(0.0, least=0.0)
    """Weight of the entropy bonus."""
    entropy_schedule: Schedule = setting("constant", before="constant")
    """Of the entropy bonus: constant, linear to 0, or trapezoid."""
    entropy_fall: float | None = setting(None, least=0.0, most=2.0)
    """Adapt the bonus to a target entropy that falls by this share of its start; None: do not."""
    warmup: float = setting(None, least=0.0, most=1.0, of_method=True)
    """Share of the steps trained by plain PPO first (methods with several experts)."""
    warmup_floor: float | None = setting(None, of_method=True)
    """End the warmup early once the mean episode return passes this."""


@dataclass(frozen=True)
class Config(
    NetworkSettings,
    ValueSettings,
    PolicySettings,
    ScheduleSettings,
    RolloutSettings,
    RunSettings,
):
    """All settings of a run: the fields of all groups.

    Preset and method decide the fields that are None or left out (`capo.presets`), and `settle`
    those that are `auto`.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "algo", self.algo.replace("_", "-"))
        for name, value in preset_values(self.preset, self.algo).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for check in (
            self._check_types,
            self._check_ranges,
            self._check_choices,
            self._check_sizes,
        ):
            check()

    def _check_types(self) -> None:
        """Refuses values of another type, after turning NumPy's numbers and lists into Python's."""
        for name, hint in _hints().items():
            value = given = getattr(self, name)
            if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
                value = value.item()
            elif isinstance(value, list):
                value = tuple(value)
            if wrong := wrong_type(value, hint):
                schedule = callable(value) and name == "learning_rate"
                course = f"; its course is {name_of('schedule')}" if schedule else ""
                raise UsageError(f"{name_of(name)} is {wrong}{course}")
            if value is not given:
                object.__setattr__(self, name, value)

    def _check_ranges(self) -> None:
        arguments_from_text(self.env_kwargs, name_of("env_kwargs"))
        for name, field in settings(self).items():
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                check_range(name, value, field)
        good = all(width >= 1 for width in self.hidden)
        _require(good, "hidden", self.hidden, "widths of at least 1")
        deep = f"at most {DEEPEST} widths"
        _require(len(self.hidden) <= DEEPEST, "hidden", reprlib.repr(self.hidden), deep)
        for name in ("env_id", "algo", "network"):
            said = getattr(self, name)
            if len(said) > LONGEST_NAME or not said.isprintable():
                raise UsageError(
                    f"{name} is {reprlib.repr(said)}; a name is printable and has at most "
                    f"{LONGEST_NAME} characters"
                )

    def _check_choices(self) -> None:
        for field in dataclasses.fields(self):
            choices = getattr(field.type, "__args__", ())
            if getattr(field.type, "__origin__", None) is Literal:
                value = getattr(self, field.name)
                _require(value in choices, field.name, repr(value), f"one of {', '.join(choices)}")

        known = self.network in ("auto", "mlp", "cnn", "multi") or ":" in self.network
        _require(known, "network", repr(self.network), "auto, mlp, cnn, multi or module:function")

    def _check_sizes(self) -> None:
        size = self.batch_size
        if size % self.minibatches:
            near = nearest_divisor(size, self.minibatches)
            raise UsageError(
                f"{self.num_envs} envs × {self.num_steps} steps = {size} samples "
                f"do not divide into {self.minibatches} minibatches; try {near}"
            )
        if self.entropy_fall is not None and not self.entropy_coef:
            raise UsageError(
                f"{name_of('entropy_fall')} adapts the bonus from a first weight; "
                f"set {name_of('entropy_coef')}, such as 0.003"
            )
        if self.total_steps < size:
            raise UsageError(
                f"{self.total_steps} steps are fewer than one batch of "
                f"{self.num_envs} × {self.num_steps} = {size}; use at least -n {size}"
            )

    @property
    def batch_size(self) -> int:
        """Samples a generation."""
        return self.num_envs * self.num_steps

    @property
    def num_generations(self) -> int:
        """Whole batches that fit into `total_steps`."""
        return self.total_steps // self.batch_size

    @property
    def env_arguments(self) -> dict[str, Any]:
        """`env_kwargs` as a dictionary."""
        return arguments_from_text(self.env_kwargs, name_of("env_kwargs"))

    def replace(self: Kind, **changes: Any) -> Kind:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Config)}

    @staticmethod
    def from_dict(values: Any) -> "Config":
        """The inverse of `to_dict`; unknown keys and values of another type are an error."""
        if not isinstance(values, dict):
            raise UsageError(f"a configuration is names and values, not {reprlib.repr(values)}")
        values, hints = upgrade(values), _hints()
        if unknown := sorted(set(values) - set(hints)):
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise UsageError(f"unknown configuration keys: {', '.join(unknown[:3])}{more}")
        if "env_id" not in values:
            raise UsageError("the configuration has no env_id")
        for name, value in values.items():
            if wrong := wrong_type(value, hints[name]):
                raise UsageError(f"the configuration's {name} is {wrong}")
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Config(**{**values, **lists})


@functools.cache
def _hints() -> dict[str, Any]:
    """The types of the fields."""
    return get_type_hints(Config)


def _check_unique(cls: type) -> None:
    """Refuses a field that two groups have: one would replace the other in silence."""
    owners: dict[str, str] = {}
    for group in cls.__mro__:
        for name in vars(group).get("__annotations__", {}):
            if name in owners:
                raise TypeError(f"{name} is a setting of {owners[name]} and of {group.__name__}")
            owners[name] = group.__name__


_check_unique(Config)


def upgrade(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a configuration file in today's fields.

    Fields that are newer than the file get the value that they would have had (`Setting.before`),
    removed ones go if the file did not use them, and `anneal_lr` is now a schedule.
    """
    known = settings(Config).items()
    values = {n: each.before for n, each in known if each.before is not None} | values
    values = {n: x for n, x in values.items() if n not in REMOVED or x != REMOVED[n]}
    values |= {n: None for n, off in OFF.items() if n in values and values[n] == off}
    if not isinstance(values.get("anneal_lr"), bool):
        return values
    schedule = "linear" if values["anneal_lr"] else "constant"
    rest = {name: value for name, value in values.items() if name != "anneal_lr"}
    return {"schedule": schedule, **rest}


def arguments_to_text(arguments: dict[str, Any]) -> str:
    """Arguments of an environment as JSON, empty for none."""
    try:
        return json.dumps(arguments, sort_keys=True, allow_nan=False) if arguments else ""
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name_of('env_kwargs')} must be JSON: {error}") from error


def arguments_from_text(text: str, what: str) -> dict[str, Any]:
    """The inverse of `arguments_to_text`; `what` names the text in an error."""
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError(f"{what} is {reprlib.repr(text)}, which is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f'{what} is {reprlib.repr(text)}; write {{"name": value}}')
    return value


def nearest_divisor(size: int, wanted: int) -> int:
    """The divisor of `size` that is closest to `wanted` (the smaller one of two as close)."""
    start = min(size, wanted)
    near = (d for away in range(start) for d in (start - away, start + away))
    return next(d for d in near if size % d == 0)


def _require(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{name_of(name)} is {value}; it must be {wanted}")
