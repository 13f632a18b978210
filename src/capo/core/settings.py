"""The settings that the mathematics reads, in groups. `capo.config.Config` has all of their fields.

None is off. This module does not import JAX, so that `capo --help` is quick; `capo.core.tracing`
makes the groups arguments of compiled programs.
"""

from dataclasses import dataclass
from typing import Literal

from capo.fields import MOST, setting


@dataclass(frozen=True)
class NetworkSettings:
    """The networks, and what they see of the observations."""

    network: str = setting("auto", on_resume="never")
    """mlp: observations as one vector; cnn: as images; multi: images among the parts of a Dict or
    Tuple as images; auto: cnn for 3-D uint8 or bool Boxes, multi where they are parts, else mlp; or
    module:function that makes a network of your own."""
    hidden: tuple[int, ...] = setting((), on_resume="never")
    """Widths of the hidden layers; empty: 64 64 (mlp), 128 (cnn), 512 (cnn, images over 35 px)."""
    activation: Literal["auto", "tanh", "relu"] = setting("auto", on_resume="never")
    """Of the hidden layers; auto: tanh for mlp, relu for cnn."""
    frame_stack: int = setting(1, least=1, most=MOST, on_resume="never")
    """Show the network the last N observations."""
    state_dependent_std: bool = setting(False, on_resume="never")
    """Let the network output the standard deviation instead of learning one for all states."""
    initial_std: float = setting(1.0, least=0.01, most=7.0, on_resume="never")
    """Standard deviation of a Gaussian policy at the beginning."""
    normalize_obs: bool = True
    """Standardise observations by running statistics, clipped at 10."""


@dataclass(frozen=True)
class AdvantageSettings:
    """Returns and advantages of a batch."""

    gamma: float = setting(0.99, least=0.0, most=1.0)
    """Discount factor."""
    gae_lambda: float = setting(0.95, least=0.0, most=1.0)
    """Lambda of generalised advantage estimation."""
    truncation: Literal["auto", "bootstrap", "terminate"] = "auto"
    """A time limit bootstraps from the final observation, or counts as the end (preset paper)."""
    advantage_norm: Literal["minibatch", "batch", "none"] = "minibatch"
    """Standardise advantages in each minibatch, over the batch, or not at all."""
    advantage_floor: float = setting(0.0, least=0.0, before=0.0)
    """Least deviation that standardised advantages are divided by, in normalised rewards."""


@dataclass(frozen=True)
class AdamSettings:
    """The optimizer of both networks."""

    adam_eps: float = setting(1e-5, above=0.0)
    """Adam's epsilon."""
    max_grad_norm: float = setting(0.5, above=0.0)
    """Gradient norm limit, for each network separately."""


@dataclass(frozen=True)
class PPOSettings:
    """The update of one expert."""

    epochs: int = setting(10, least=1, most=MOST)
    """E: passes over the batch."""
    minibatches: int = setting(None, least=1, most=MOST)
    """M: minibatches a pass."""
    clip: float = setting(0.2, above=0.0)
    """PPO's clip threshold for the likelihood ratio, and for the value."""
    target_kl: float | None = setting(None, above=0.0)
    """Stop an expert's epochs once KL(incumbent|expert) exceeds this; None: never."""


@dataclass(frozen=True)
class CriticSettings:
    """The value fit."""

    vf_coef: float = setting(0.5, least=0.0)
    """Weight of the value loss."""
    critic_batches: Literal["newest", "all"] = setting("newest", before="newest")
    """Batches that the value function is fitted to, if updates learn from several."""


@dataclass(frozen=True)
class ExpertSettings:
    """The experts: how many, what trains them, what they differ in."""

    experts: int = setting(None, least=1, most=MOST, of_method=True)
    """K: replicates trained in a generation (and the factor of epochs in ppo-kx)."""
    diversity: Literal["shuffle", "gae-lambda", "bootstrap", "batches"] = setting(
        None, of_method=True
    )
    """What the experts differ in besides their shuffle; batches: expert k takes batch t − k."""
    reuse: int = setting(1, least=1, most=MOST)
    """Learn from the last N batches, with importance weights; 1: from the newest alone."""
    base_optimizer: Literal["ppo", "trpo"] = setting("ppo", of_method=True)
    """What trains each expert of capo, capo-avg and best-of-k."""
    carry: Literal["auto", "incumbent", "counter", "reset", "best", "average"] = setting(
        "auto", of_method=True
    )
    """Adam state that is kept; counter: empty moments (preset paper); auto: incumbent for K > 1."""


@dataclass(frozen=True)
class TRPOSettings:
    """TRPO, as a method of its own and as the base optimizer of experts."""

    trpo_delta: float = setting(0.01, above=0.0, of_method=True)
    """TRPO's trust region."""
    trpo_damping: float = setting(0.1, least=0.0, of_method=True)
    """Damping of TRPO's Fisher-vector product."""
    trpo_cg_iters: int = setting(10, least=1, most=MOST, of_method=True)
    """Most conjugate gradient iterations of TRPO."""


@dataclass(frozen=True)
class StepSettings:
    """The step from the incumbent to the aggregated policy."""

    deviation: Literal["all", "newest"] = setting(None, of_method=True, before="all")
    """Batches that a Gaussian's state-independent deviation learns from (diversity batches)."""
    outer_lr: float | None = setting(None, above=0.0)
    """η of the step θ + ηΔ along the update Δ; None: the update itself."""
    delta: float = setting(0.02, above=0.0, of_method=True)
    """Trust region of the line search: KL(incumbent|next) stays at or below this."""
    line_search: Literal["auto", "off", "on"] = setting("auto", of_method=True)
    """Shrink an update to delta; auto: on for capo."""


@dataclass(frozen=True)
class DistillSettings:
    """The distillation of a pool into the network."""

    distill: Literal["auto", "off", "on", "adam"] = setting("auto", of_method=True)
    """Fit the network to the pool: on, by Gauss-Newton; adam (preset paper); auto: on for capo."""
    distill_init: Literal["auto", "average", "incumbent"] = setting("auto", of_method=True)
    """Where the student starts: the aggregated parameters, or the incumbent (preset paper)."""
    distill_steps: int = setting(10, least=0, of_method=True)
    """Full-batch steps of the distillation: at most as many by Gauss-Newton, exactly by Adam."""
    distill_tol: float = setting(0.01, least=0.0, of_method=True)
    """Distillation ends when KL(q|student) is below this share of KL(incumbent|q)."""


@dataclass(frozen=True)
class PolicySettings(
    DistillSettings,
    StepSettings,
    TRPOSettings,
    ExpertSettings,
    PPOSettings,
    AdamSettings,
    AdvantageSettings,
):
    """All that the update of the policy reads."""


@dataclass(frozen=True)
class ValueSettings(CriticSettings, PPOSettings, AdamSettings, AdvantageSettings):
    """All that the value fit reads."""
