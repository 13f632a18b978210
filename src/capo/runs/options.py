"""The options of a run: how it is driven and recorded. None of them changes its numbers."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

import tyro

from capo.config import STEPS
from capo.errors import UsageError, check_least, name_of


@dataclass(frozen=True)
class Options:
    """Options of `capo train`, and keywords of `learn`."""

    checkpoint_every: int | None = None
    """Generations between two checkpoints; None: about 20 in all; 0: only at the end."""
    env_timeout: float | None = 300.0
    """Most seconds that a step or reset of the environments may take; None: no limit."""
    eval_every: Annotated[int | None, STEPS] = None
    """Evaluate the policy about every so many steps, and keep the best one; None: do not."""
    eval_episodes: int = 20
    """Episodes of an evaluation; 0: none, not at the end of a run with a folder either."""
    stop_at: float | None = None
    """End the run at this return: of an evaluation, or without eval_every of 100 episodes."""
    track: Literal["wandb", "trackio"] | None = None
    """Send the metrics to this service too."""
    track_project: Annotated[str, tyro.conf.arg(metavar="NAME")] = "capo"
    """Project at the service."""

    def __post_init__(self) -> None:
        check_least("eval_episodes", self.eval_episodes, 0)
        if self.eval_every is not None and not self.eval_episodes:
            raise UsageError(
                f"{name_of('eval_every')} evaluates on episodes, so {name_of('eval_episodes')} "
                "must be at least 1"
            )
        if self.env_timeout is not None:
            check_least("env_timeout", self.env_timeout, 1e-3)
        if self.checkpoint_every is not None:
            check_least("checkpoint_every", self.checkpoint_every, 0)

    def words(self) -> tuple[str, ...]:
        """The arguments of `capo train` that give these options."""
        changed = (field for field in fields(self) if getattr(self, field.name) != field.default)
        return tuple(f"--{f.name.replace('_', '-')}={getattr(self, f.name)}" for f in changed)
