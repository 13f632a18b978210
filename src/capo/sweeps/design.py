"""Data types of an experiment: variants of methods, measures, tables, published numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from capo.sweeps.summaries import Summary


class Published(NamedTuple):
    """A number of the paper with its standard error, which is NaN if the paper states none."""

    mean: float
    error: float = math.nan


class Variant(NamedTuple):
    """A method with some settings changed."""

    algo: str
    setting: str = ""
    """Name of the change in a table."""
    changes: tuple[tuple[str, Any], ...] = ()
    """Names of the changed fields of the configuration, and their values."""

    @property
    def label(self) -> str:
        """The method and its change."""
        return f"{self.algo}, {self.setting}" if self.setting else self.algo

    @property
    def marked(self) -> str:
        """The label with the method between backticks."""
        return f"`{self.algo}`" + (self.setting and f", {self.setting}")


class Contrast(NamedTuple):
    """Two variants that differ in one change."""

    after: Variant
    before: Variant
    name: str = ""
    """Name of the change, if the variants do not show it."""


class Measure(NamedTuple):
    """A number of a run that a table shows."""

    name: str
    of: Callable[[Summary], float]
    digits: int = 0
    relative: bool = False
    """Whether it is divided by PPO's mean over seeds on the same task."""


class Threshold(NamedTuple):
    """A return that separates two kinds of final policies on a task."""

    env_id: str
    value: float

    @property
    def title(self) -> str:
        """Hopper above 1000, for Hopper-v4."""
        return f"{self.env_id.rpartition('-')[0]} above {self.value:.0f}"


def comparable(env_id: str, run: Summary, measure: Measure) -> str:
    """Why a run cannot be compared with published numbers: for no reason."""
    return ""


Finder = Callable[[str, Variant, Measure], Published | None]
"""Looks up the published number of a task, a variant and a measure."""


class Layout(NamedTuple):
    """The rows and columns of a table, out of env, algo, setting, label and measure."""

    title: str
    rows: tuple[str, ...]
    column: str
    measures: tuple[Measure, ...]
    published: Finder = lambda *_: None
    algos: tuple[str, ...] | None = None
    """Methods in the table; None: all methods of the experiment."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or one of our own."""

    name: str
    title: str
    where: str
    """Place in the paper."""
    about: str
    envs: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: int | tuple[int, ...]
    """Number of seeds, 1, 2, …; or the seeds, and then the tables show no other."""
    layouts: tuple[Layout, ...] = ()
    figure: str = ""
    """Name of a figure; empty: none."""
    contrasts: tuple[Contrast, ...] = ()
    """Pairs of variants whose difference is shown seed by seed."""
    reference: Variant | None = None
    """Variant that the others are divided by, seed by seed; then the contrasts are ratios too."""
    threshold: Threshold | None = None
    """The share of seeds above it is shown beside the ratios."""
    mismatch: Callable[[str, Summary, Measure], str] = comparable
    """Why a run on a task cannot be compared with the published numbers; empty if it can."""

    def published(self, env_id: str, variant: Variant, measure: Measure) -> Published | None:
        """The published number from any table of the experiment; None if there is none."""
        if env_id not in self.envs:
            return None
        layouts = [layout for layout in self.layouts if measure in layout.measures]
        stated = (layout.published(env_id, variant, measure) for layout in layouts)
        return next(filter(None, stated), None)
