"""The configuration of a run."""

import dataclasses
import math
import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.errors import UsageError, name_of
from capo.fields import MOST, check_range, setting, settings, wrong_type

PRESETS: dict[str, dict[str, str]] = {
    "default": {"truncation": "bootstrap", "distill_init": "average"},
    "paper": {"truncation": "terminate", "distill_init": "incumbent"},
}
"""Values of the `auto` fields that a preset decides."""
Kind = TypeVar("Kind", bound="Config")
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
class Config:
    """All settings of a run. `settle` replaces every `auto` by what preset and method decide."""

    env_id: Annotated[str, tyro.conf.arg(metavar="ENV"), tyro.conf.Positional] = setting(
        compiled=False, in_name=False, compared=False, on_resume="new-episodes"
    )
    """A Gymnasium environment id, such as Hopper-v4."""
    algo: str = setting("capo", in_name=False, compared=False, on_resume="never")
    """capo, capo-avg, ppo, ppo-kx, best-of-k, ppo-swa or trpo."""
    total_steps: Steps = setting(1_000_000, compiled=False, in_name=False, compared=False)
    """Environment steps to train for; takes 1_000_000, 1e6 and 1M."""
    seed: int = setting(
        1,
        least=0,
        most=2**31 - 1,
        compiled=False,
        in_name=False,
        compared=False,
        on_resume="new-episodes",
    )
    """Seed of everything random in the run."""
    preset: Literal["default", "paper"] = setting(
        "default", decisive=False, in_name=False, on_resume="never"
    )
    """default: what we recommend; paper: the closest reading of the paper."""
    backend: Literal["auto", "envpool", "gymnasium"] = setting(
        "auto",
        compiled=False,
        decisive=False,
        in_name=False,
        compared=False,
        on_resume="new-episodes",
    )
    """Who steps the environments; auto takes EnvPool where it is installed and has the task."""
    workers: int | None = setting(
        None,
        least=0,
        compiled=False,
        decisive=False,
        in_name=False,
        compared=False,
        on_resume="always",
    )
    """Processes that help step Gymnasium tasks; None: one for each other core (MuJoCo); 0: none."""
    diagnostics: int | None = setting(None, least=0, compiled=False, compared=False)
    """Split every N-th update into signal and waste; None: ten and the last, evenly; 0: none."""

    experts: int = setting(4, least=1, most=MOST, of_method=True)
    """K: replicates trained on each batch (and the factor of epochs in ppo-kx)."""
    epochs: int = setting(10, least=1, most=MOST)
    """E: passes over the batch."""
    minibatches: int = setting(32, least=1, most=MOST)
    """M: minibatches a pass."""
    num_envs: int = setting(8, least=1, most=MOST, on_resume="never")
    """Environments stepped side by side."""
    num_steps: int = setting(512, least=1, most=MOST, on_resume="never")
    """Steps each environment contributes to a batch."""
    learning_rate: float = setting(3e-4, above=0.0, compiled=False)
    """Adam's step size, policy and critic."""
    schedule: Schedule = setting("linear", compiled=False)
    """Of the learning rate: linear to 0, constant, or trapezoid (constant, then linear to 0)."""
    decay: float = setting(0.3, least=0.0, most=1.0, compiled=False)
    """Last share of the generations, in which a trapezoid falls to 0."""
    adaptive_lr: float = setting(0.0, least=0.0, compiled=False)
    """Target KL: the rate is divided by 1.5 above twice it, multiplied below half; 0: off."""
    adam_eps: float = setting(1e-5, above=0.0)
    """Adam's epsilon."""
    gamma: float = setting(0.99, least=0.0, most=1.0)
    """Discount factor."""
    gae_lambda: float = setting(0.95, least=0.0, most=1.0)
    """Lambda of generalised advantage estimation."""
    clip: float = setting(0.2, above=0.0)
    """PPO's clip threshold for the likelihood ratio, and for the value."""
    entropy_coef: float = setting(0.0, least=0.0)
    """Weight of the entropy bonus."""
    reuse: int = setting(1, least=1, most=MOST)
    """Learn from the last N batches, with importance weights; 1: from the newest alone."""
    critic_epochs: int = setting(0, least=0, most=MOST)
    """Passes of the value fit over the batch; 0: as many as an expert's."""
    critic_experts: int = setting(1, least=1, most=MOST, on_resume="never")
    """Value functions whose mean is V, each fitted to its own bootstrap resample of the batch."""
    vf_coef: float = setting(0.5, least=0.0)
    """Weight of the value loss."""
    max_grad_norm: float = setting(0.5, above=0.0)
    """Gradient norm limit, for each network separately."""
    target_kl: float = setting(0.0, least=0.0)
    """Stop an expert's epochs once KL(incumbent|expert) exceeds this; 0: never."""
    advantage_norm: Literal["minibatch", "batch", "none"] = "minibatch"
    """Standardise advantages in each minibatch, over the batch, or not at all."""

    outer_lr: float = setting(1.0, above=0.0)
    """η of the outer step θ + η(Δ + μm) along the update Δ and its momentum m ← μm + Δ."""
    outer_momentum: float = setting(0.0, least=0.0, most=1.0)
    """μ of the outer step; 0: no momentum."""
    ema: float = setting(0.0, least=0.0, most=1.0, compiled=False)
    """τ of ψ ← τψ + (1 − τ)θ, an average of the policy over generations to evaluate; 0: none."""
    delta: float = setting(0.02, above=0.0, compiled=False, of_method=True)
    """Trust region of the line search: KL(incumbent|next) stays at or below this."""
    delta_schedule: Schedule = setting("constant", compiled=False, of_method=True)
    """Of delta: linear to 0, constant, or trapezoid."""
    delta_std: float = setting(0.0, least=0.0)
    """Limit on the part of the KL that is due to a Gaussian's deviation; 0: none."""
    line_search: Literal["auto", "off", "on", "radius"] = setting("auto", of_method=True)
    """on: shrink an update to delta; radius: extend one that falls short too; auto: on for capo."""
    distill: Literal["auto", "off", "on", "adam"] = setting("auto", of_method=True)
    """Fit the network to the pool: on, by Gauss-Newton; adam (preset paper); auto: on for capo."""
    distill_init: Literal["auto", "average", "incumbent"] = setting("auto", of_method=True)
    """Where the student starts: the aggregated parameters, or the incumbent (preset paper)."""
    distill_steps: int = setting(10, least=0, of_method=True)
    """Full-batch steps of the distillation: at most as many by Gauss-Newton, exactly by Adam."""
    distill_tol: float = setting(0.01, least=0.0, of_method=True)
    """Distillation ends when KL(q|student) is below this share of KL(incumbent|q)."""
    warmup: float = setting(0.1, least=0.0, most=1.0, compiled=False, of_method=True)
    """Share of the steps trained by plain PPO first (methods with several experts)."""
    warmup_floor: float | None = setting(None, compiled=False, of_method=True)
    """End the warmup early once the mean episode return passes this."""
    carry: Literal["auto", "incumbent", "counter", "reset", "best", "average"] = setting(
        "auto", of_method=True
    )
    """Adam state that is kept; counter: empty moments (preset paper); auto: incumbent for K > 1."""
    base_optimizer: Literal["ppo", "trpo"] = setting("ppo", of_method=True)
    """What trains each expert of capo, capo-avg and best-of-k."""
    diversity: Literal["shuffle", "gae-lambda", "bootstrap", "subset", "batches"] = setting(
        "shuffle", of_method=True
    )
    """What the experts differ in besides their shuffle; batches: expert k takes batch t − k."""
    trpo_delta: float = setting(0.01, above=0.0, of_method=True)
    """TRPO's trust region."""
    trpo_damping: float = setting(0.1, least=0.0, of_method=True)
    """Damping of TRPO's Fisher-vector product."""
    trpo_cg_iters: int = setting(10, least=1, most=MOST, of_method=True)
    """Most conjugate gradient iterations of TRPO."""

    network: Literal["auto", "mlp", "cnn"] = setting("auto", compiled=False, on_resume="never")
    """mlp: observations as one vector; cnn: as images; auto: cnn for 3-D uint8 or bool Boxes."""
    hidden: tuple[int, ...] = setting((), compiled=False, on_resume="never")
    """Widths of the hidden layers; empty: 64 64 (mlp), 128 (cnn), 512 (cnn, images over 35 px)."""
    activation: Literal["auto", "tanh", "relu"] = setting("auto", compiled=False, on_resume="never")
    """Of the hidden layers; auto: tanh for mlp, relu for cnn."""
    frame_stack: int = setting(1, least=1, most=MOST, compiled=False, on_resume="never")
    """Show the network the last N observations."""
    state_dependent_std: bool = setting(False, on_resume="never")
    """Let the network output the standard deviation instead of learning one for all states."""
    normalize_obs: bool = True
    """Standardise observations by running statistics, clipped at 10."""
    normalize_reward: bool = True
    """Divide rewards by the running deviation of the return, clipped at 10."""
    truncation: Literal["auto", "bootstrap", "terminate"] = "auto"
    """A time limit bootstraps from the final observation, or counts as the end (preset paper)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "algo", self.algo.replace("_", "-"))
        for check in (self._check_ranges, self._check_choices, self._check_sizes):
            check()

    def _check_ranges(self) -> None:
        for name, found in settings(self).items():
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                check_range(name, value, found)
        good = all(width >= 1 for width in self.hidden)
        _require(good, "hidden", self.hidden, "widths of at least 1")
        deep = f"at most {DEEPEST} widths"
        _require(len(self.hidden) <= DEEPEST, "hidden", reprlib.repr(self.hidden), deep)
        for name in ("env_id", "algo"):
            said = getattr(self, name)
            if len(said) > LONGEST_NAME or not said.isprintable():
                raise UsageError(f"{name} is {reprlib.repr(said)}, which is no name")

    def _check_choices(self) -> None:
        for field in dataclasses.fields(self):
            choices = getattr(field.type, "__args__", ())
            if getattr(field.type, "__origin__", None) is Literal:
                value = getattr(self, field.name)
                _require(value in choices, field.name, repr(value), f"one of {', '.join(choices)}")

    def _check_sizes(self) -> None:
        size = self.batch_size
        if size % self.minibatches:
            near = nearest_divisor(size, self.minibatches)
            raise UsageError(
                f"{self.num_envs} envs × {self.num_steps} steps = {size} samples "
                f"do not divide into {self.minibatches} minibatches; try {near}"
            )
        if self.diversity == "subset" and size % self.experts:
            near = nearest_divisor(size, self.experts)
            raise UsageError(
                f"{size} samples do not divide into shares for {self.experts} experts; try {near}"
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
    def generations(self) -> int:
        """Whole batches that fit into `total_steps`."""
        return self.total_steps // self.batch_size

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
        values, hints = upgrade(values), get_type_hints(Config)
        if unknown := sorted(set(values) - set(hints)):
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise UsageError(f"unknown configuration keys: {', '.join(unknown[:3])}{more}")
        if "env_id" not in values:
            raise UsageError("the configuration has no env_id")
        for name, value in values.items():
            if wrong := wrong_type(value, hints[name]):
                raise UsageError(f"the configuration's {name} is {wrong}")
        return Config(**{**values, "hidden": tuple(values.get("hidden", Config.hidden))})


def upgrade(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a configuration file in today's fields: `anneal_lr` is now a schedule."""
    if not isinstance(values.get("anneal_lr"), bool):
        return values
    schedule = "linear" if values["anneal_lr"] else "constant"
    rest = {name: value for name, value in values.items() if name != "anneal_lr"}
    return {"schedule": schedule, **rest}


def nearest_divisor(size: int, wanted: int) -> int:
    """The divisor of `size` that is closest to `wanted` (the smaller one of two as close)."""
    start = min(size, wanted)
    near = (d for away in range(start) for d in (start - away, start + away))
    return next(d for d in near if size % d == 0)


def _require(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{name_of(name)} is {value}; it must be {wanted}")
