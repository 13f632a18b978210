"""Keywords of the classes, for editors and type checkers; a test compares them with `Config`."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict


class StableNames(TypedDict, total=False):
    """Names of Stable-Baselines3 that the classes take (`capo.aliases`)."""

    n_envs: int
    n_steps: int
    batch_size: int
    n_epochs: int
    clip_range: Any
    ent_coef: float
    normalize_advantage: bool
    policy_kwargs: dict[str, Any] | None
    use_sde: bool
    device: Any
    verbose: int
    cg_max_steps: int
    cg_damping: float


class Keywords(StableNames, total=False):
    """The fields of `Config` that a class takes."""

    preset: Literal["auto", "default", "corrected", "paper"]
    backend: Literal["auto", "envpool", "gymnasium"]
    workers: int | None
    env_kwargs: str | dict[str, Any]
    wrappers: Sequence[Any]
    diagnostics: int | None
    num_envs: int
    num_steps: int
    action_noise: float
    normalize_reward: bool
    learning_rate: Any
    schedule: Literal["linear", "constant", "trapezoid"]
    decay: float
    adaptive_lr: float | None
    entropy_coef: float
    entropy_schedule: Literal["linear", "constant", "trapezoid"]
    entropy_fall: float | None
    warmup: float
    warmup_floor: float | None
    gamma: float
    gae_lambda: float
    truncation: Literal["auto", "bootstrap", "terminate"]
    advantage_norm: Literal["minibatch", "batch", "none"]
    advantage_floor: float
    adam_eps: float
    max_grad_norm: float
    epochs: int
    minibatches: int
    clip: float
    target_kl: float | None
    experts: int
    diversity: Literal["shuffle", "gae-lambda", "bootstrap", "batches"]
    reuse: int
    base_optimizer: Literal["ppo", "trpo"]
    carry: Literal["auto", "incumbent", "counter", "reset", "best", "average"]
    trpo_delta: float
    trpo_damping: float
    trpo_cg_iters: int
    deviation: Literal["all", "newest"]
    outer_lr: float | None
    delta: float
    line_search: Literal["auto", "off", "on"]
    distill: Literal["auto", "off", "on", "adam"]
    distill_init: Literal["auto", "average", "incumbent"]
    distill_steps: int
    distill_tol: float
    vf_coef: float
    critic_batches: Literal["newest", "all"]
    hidden: Sequence[int]
    activation: Literal["auto", "tanh", "relu"]
    frame_stack: int
    state_dependent_std: bool
    initial_std: float
    normalize_obs: bool
