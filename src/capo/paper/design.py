"""What an experiment is: its variants, measures, tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from capo.paper.summaries import Summary


class Published(NamedTuple):
    """A number of the paper, and its standard error; not a number where it states none."""

    mean: float
    error: float = math.nan


class Variant(NamedTuple):
    """A method with some of its settings changed."""

    algo: str
    setting: str = ""
    """How the change is called in a table."""
    changes: tuple[tuple[str, Any], ...] = ()
    """Fields of the configuration, and what they are instead of the default."""

    @property
    def label(self) -> str:
        """The method, and what was changed."""
        return f"{self.algo}, {self.setting}" if self.setting else self.algo

    @property
    def marked(self) -> str:
        """The same with the method between backticks."""
        return f"`{self.algo}`" + (self.setting and f", {self.setting}")


class Contrast(NamedTuple):
    """A change of a method, and the two variants that differ in nothing else."""

    after: Variant
    before: Variant
    name: str = ""
    """What the change is, where the two do not say it."""


class Measure(NamedTuple):
    """A number of a run that a table shows."""

    name: str
    of: Callable[[Summary], float]
    digits: int = 0
    relative: bool = False
    """Divided by what PPO has on the same task, its mean over seeds."""


Finder = Callable[[str, Variant, Measure], Published | None]
"""What the paper states for a measure of a variant on a task."""


class Layout(NamedTuple):
    """A table: what its rows and its columns are, out of env, algo, setting, label and measure."""

    title: str
    rows: tuple[str, ...]
    column: str
    measures: tuple[Measure, ...]
    published: Finder = lambda *_: None
    algos: tuple[str, ...] | None = None
    """The methods it is about; None: all that were run for it."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or of ours."""

    name: str
    title: str
    where: str
    """Where the paper has it."""
    about: str
    envs: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: int
    layouts: tuple[Layout, ...] = ()
    figure: str = ""
    """Which of `figures.FIGURES` it is drawn as."""
    contrasts: tuple[Contrast, ...] = ()
    """The differences that it is about."""

    def published(self, env_id: str, variant: Variant, measure: Measure) -> Published | None:
        """What the paper states, in whichever of its tables, for the experiment's own tasks."""
        if env_id not in self.envs:
            return None
        layouts = [layout for layout in self.layouts if measure in layout.measures]
        stated = (layout.published(env_id, variant, measure) for layout in layouts)
        return next(filter(None, stated), None)
