"""The one configuration: every number and switch of a run, with the paper's defaults."""

import dataclasses
import math
import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from capo.fields import wrong_type

PRESETS: dict[str, dict[str, str]] = {
    "default": {"truncation": "bootstrap", "distill_init": "average"},
    "paper": {"truncation": "terminate", "distill_init": "incumbent"},
}
"""What `auto` means for the fields that a preset decides."""
MOST = 1_000_000
"""Of what is counted by hand: environments, epochs. More is a slip, or a file that means harm."""
LONGEST_NAME, DEEPEST = 200, 100
"""Letters of an id, and hidden layers."""


class UsageError(ValueError):
    """A mistake in what was asked for; its text is one line that says what would be right."""


def check_least(name: str, value: float, least: float = 1) -> None:
    """Refuses a number that is not finite or below `least`."""
    if not least <= value < math.inf:
        raise UsageError(f"{name} is {value}; it must be at least {least}")


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
Steps = Annotated[int, tyro.conf.arg(name="total-steps", aliases=["-n"]), STEPS]


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. The preset and the method settle what is `auto`."""

    env_id: Annotated[str, tyro.conf.arg(metavar="ENV"), tyro.conf.Positional]
    """A Gymnasium environment id, such as Hopper-v4."""
    algo: str = "capo"
    """capo, capo-avg, ppo, ppo-kx, best-of-k, ppo-swa or trpo."""
    total_steps: Steps = 1_000_000
    """Environment steps to train for; takes 1_000_000, 1e6 and 1M."""
    seed: int = 1
    """Seed of everything random in the run."""
    preset: Literal["default", "paper"] = "default"
    """default: what we recommend; paper: the closest reading of the paper."""
    backend: Literal["auto", "envpool", "gymnasium"] = "auto"
    """Who steps the environments; auto takes EnvPool where it is installed and has the task."""
    workers: int | None = None
    """Processes that help step Gymnasium tasks; None: one for each other core (MuJoCo); 0: none."""
    diagnostics: int | None = None
    """Split every N-th update into signal and waste; None: ten and the last, evenly; 0: none."""

    experts: int = 4
    """K: replicates trained on each batch (and the factor of epochs in ppo-kx)."""
    epochs: int = 10
    """E: passes over the batch."""
    minibatches: int = 32
    """M: minibatches a pass."""
    num_envs: int = 8
    """Environments stepped side by side."""
    num_steps: int = 512
    """Steps each environment contributes to a batch."""
    learning_rate: float = 3e-4
    """Adam's step size, policy and critic."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to 0 over the generations."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    clip: float = 0.2
    """PPO's clip threshold for the likelihood ratio, and for the value."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradient norm limit, for each network separately."""
    target_kl: float = 0.0
    """Stop an expert's epochs once KL(incumbent|expert) exceeds this; 0: never."""
    advantage_norm: Literal["minibatch", "batch", "none"] = "minibatch"
    """Standardise advantages in each minibatch, over the batch, or not at all."""

    delta: float = 0.02
    """Trust region of the line search: KL(incumbent|next) stays at or below this."""
    line_search: Literal["auto", "off", "on", "radius"] = "auto"
    """on: shrink an update to delta; radius: extend one that falls short too; auto: on for capo."""
    distill: Literal["auto", "off", "on"] = "auto"
    """Fit the network to the aggregated policy; auto: on for capo."""
    distill_init: Literal["auto", "average", "incumbent"] = "auto"
    """Where the student starts: the aggregated parameters, or the incumbent (preset paper)."""
    distill_steps: int = 10
    """Most full-batch Gauss-Newton steps of the distillation."""
    distill_tol: float = 0.01
    """Distillation ends when KL(q|student) is below this share of KL(incumbent|q)."""
    warmup: float = 0.1
    """Share of the steps trained by plain PPO first (methods with several experts)."""
    warmup_floor: float | None = None
    """End the warmup early once the mean episode return passes this."""
    carry: Literal["auto", "incumbent", "reset", "best", "average"] = "auto"
    """Whose Adam state goes on; auto: incumbent with several experts, its own with one."""
    base_optimizer: Literal["ppo", "trpo"] = "ppo"
    """What trains each expert of capo, capo-avg and best-of-k."""
    diversity: Literal["shuffle", "gae-lambda", "bootstrap", "subset"] = "shuffle"
    """What the experts differ in besides their shuffle."""
    trpo_delta: float = 0.01
    """TRPO's trust region."""
    trpo_damping: float = 0.1
    """Damping of TRPO's Fisher-vector product."""
    trpo_cg_iters: int = 10
    """Most conjugate gradient iterations of TRPO."""

    network: Literal["auto", "mlp", "cnn"] = "auto"
    """mlp: observations as one vector; cnn: as images; auto: cnn for 3-D uint8 or bool Boxes."""
    hidden: tuple[int, ...] = ()
    """Widths of the hidden layers; empty: 64 64 (mlp), 128 (cnn), 512 (cnn, images over 35 px)."""
    activation: Literal["auto", "tanh", "relu"] = "auto"
    """Of the hidden layers; auto: tanh for mlp, relu for cnn."""
    frame_stack: int = 1
    """Show the network the last N observations."""
    state_dependent_std: bool = False
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
        sizes = ("experts", "epochs", "minibatches", "num_envs", "num_steps")
        for name in (*sizes, "trpo_cg_iters", "frame_stack"):
            value = getattr(self, name)
            _require(value >= 1, name, value, "at least 1")
            _require(value <= MOST, name, value, f"at most {MOST}")
        for name in ("learning_rate", "adam_eps", "clip", "max_grad_norm", "delta", "trpo_delta"):
            _in_range(self, name, 0.0, math.inf, open_low=True)
        for name in ("entropy_coef", "vf_coef", "target_kl", "trpo_damping", "distill_tol"):
            _in_range(self, name, 0.0, math.inf)
        for name in ("gamma", "gae_lambda", "warmup"):
            _in_range(self, name, 0.0, 1.0)
        _require(0 <= self.seed < 2**31, "seed", self.seed, f"between 0 and {2**31 - 1}")
        _require(self.distill_steps >= 0, "distill_steps", self.distill_steps, "at least 0")
        for name in ("diagnostics", "workers"):
            if (value := getattr(self, name)) is not None:
                _require(value >= 0, name, value, "at least 0")
        if self.warmup_floor is not None:
            _require(math.isfinite(self.warmup_floor), "warmup_floor", self.warmup_floor, "finite")
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

    def replace(self, **changes: Any) -> "Config":
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: Any) -> "Config":
        """The inverse of `to_dict`; unknown keys and values of another type are an error."""
        if not isinstance(values, dict):
            raise UsageError(f"a configuration is names and values, not {reprlib.repr(values)}")
        hints = get_type_hints(Config)
        if unknown := sorted(set(values) - set(hints)):
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise UsageError(f"unknown configuration keys: {', '.join(unknown[:3])}{more}")
        if "env_id" not in values:
            raise UsageError("the configuration has no env_id")
        for name, value in values.items():
            if wrong := wrong_type(value, hints[name]):
                raise UsageError(f"the configuration's {name} is {wrong}")
        return Config(**{**values, "hidden": tuple(values.get("hidden", Config.hidden))})


def nearest_divisor(size: int, wanted: int) -> int:
    """The divisor of `size` that is closest to `wanted` (the smaller one of two as close)."""
    start = min(size, wanted)
    near = (d for away in range(start) for d in (start - away, start + away))
    return next(d for d in near if size % d == 0)


def _require(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{flag(name)} is {value}; it must be {wanted}")


def _in_range(config: Config, name: str, low: float, high: float, open_low: bool = False) -> None:
    value = getattr(config, name)
    good = math.isfinite(value) and (low < value if open_low else low <= value) and value <= high
    above = f"above {low:g}" if open_low else f"at least {low:g}"
    wanted = f"a finite number {above}" if high == math.inf else f"between {low:g} and {high:g}"
    _require(good, name, value, wanted)


def flag(name: str) -> str:
    """The command-line spelling of a field: `num_envs` is `--num-envs`."""
    return "-n" if name == "total_steps" else "--" + name.replace("_", "-")
