"""A comparison as one HTML file."""

import base64
import itertools
import json
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from capo.compare import Comparison
from capo.compare.charts import Frame, SignalWasteChart, learning_frame, signal_waste_charts
from capo.compare.curves import Curve, signal_waste
from capo.compare.groups import Group
from capo.compare.line_styles import DARK_COLORS, LIGHT_COLORS, LineStyle
from capo.compare.text import TRAINING_RETURN_NOTE, interval
from capo.report.format import count
from capo.report.webpage import read_source, render, trained_with
from capo.runs.reading import number

LARGEST_GIF = 3_000_000
"""Bytes of a recorded episode; a larger one is left out."""
OPEN_UP_TO = 12
"""Runs up to which the commands are unfolded."""


class LearningFigure(NamedTuple):
    """The learning curves of one environment."""

    env_id: str
    title: str
    frame: Frame
    curves: list[tuple[LineStyle, Curve]]
    legend: list[tuple[str, LineStyle, int]]
    """Label, line style and number of seeds of each curve."""
    data: str
    """Steps and means of each curve as JSON, for the script that reads them under the pointer."""


class Episode(NamedTuple):
    """A recorded episode of a group."""

    name: str
    score: float
    data: str
    """A GIF in base64."""


def report_page(comparison: Comparison, command: str) -> bytes:
    """The HTML page, with the command that made it."""
    records = [record for group in comparison.groups for record in group.records]
    versions = (record.manifest.get("versions") for record in records)
    several = len({each.reference for each in comparison.overall}) > 1
    starred = any(result.without_evaluation for result in comparison.results)
    return render(
        "compare/report.html",
        read_source("compare/page.css") + _palette(),
        read_source("compare/page.js"),
        generator="capo compare",
        title=title(comparison),
        lead=_lead(comparison),
        footer=[trained_with(versions)],
        comparison=comparison,
        learning=list(_learning(comparison)),
        references={(r.group.env_id, r.reference) for r in comparison.results},
        several_references=several,
        iqm_ranges=_iqm_ranges(comparison),
        notes=[*[TRAINING_RETURN_NOTE] * starred, *comparison.notes],
        signal_waste=list(_signal_waste(comparison)),
        episodes=list(filter(None, map(_episode, comparison.groups))),
        commands=list(_commands(comparison)),
        commands_open=len(records) <= OPEN_UP_TO,
        command=command,
        interval=interval,
        is_finite=lambda value: math.isfinite(number(value)),
    )


def title(comparison: Comparison) -> str:
    """Ppo and capo on CartPole-v1; or the numbers of algorithms and environments if many."""
    labels, envs = (
        " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        if len(names) < 4
        else f"{len(names)} {plural}"
        for names, plural in ((comparison.labels, "algorithms"), (comparison.envs, "environments"))
    )
    return f"{labels} on {envs}"


def _lead(comparison: Comparison) -> str:
    sizes = sorted({len(result.scores) for result in comparison.results})
    seeds = f"{sizes[0]} to {sizes[-1]} seeds" if len(sizes) > 1 else count(sizes[0], "seed")
    runs = sum(len(result.scores) for result in comparison.results)
    return (
        f"{count(runs, 'run')}, {seeds} each. Bands and brackets are "
        f"{100 * comparison.confidence:g}% bootstrap intervals over seeds."
    )


def _learning(comparison: Comparison) -> Iterator[LearningFigure]:
    for env_id, pairs in itertools.groupby(comparison.curves, key=lambda pair: pair[0].env_id):
        here = [(group.label, comparison.styles[group.label], curve) for group, curve in pairs]
        yield LearningFigure(
            env_id,
            f"Learning curves of {', '.join(label for label, _, _ in here)} on {env_id}",
            learning_frame([curve for _, _, curve in here]),
            [(style, curve) for _, style, curve in here],
            [(label, style, curve.seeds) for label, style, curve in here],
            json.dumps([[_digits(curve.steps), _digits(curve.mean)] for _, _, curve in here]),
        )


def _digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _iqm_ranges(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """The range of all intervals of the IQM in each environment."""
    ends: dict[str, list[float]] = {env_id: [] for env_id in comparison.envs}
    for result in comparison.results:
        if not math.isnan(result.iqm.value):
            ends[result.group.env_id] += [result.iqm.low, result.iqm.high]
    return {env: (min(x, default=0.0), max(x, default=1.0)) for env, x in ends.items()}


def _signal_waste(comparison: Comparison) -> Iterator[tuple[Group, SignalWasteChart]]:
    """Charts of the groups that were diagnosed, with one scale for each environment."""
    pairs = [(group, split) for group in comparison.groups if (split := signal_waste(group))]
    for _, here in itertools.groupby(pairs, key=lambda pair: pair[0].env_id):
        groups, splits = zip(*here, strict=True)
        yield from zip(groups, signal_waste_charts(splits), strict=True)


def _episode(group: Group) -> Episode | None:
    """The episode of the first seed with a recording."""
    for record in group.records:
        file = record.path / "play.gif"
        if file.is_file() and file.stat().st_size <= LARGEST_GIF:
            content = file.read_bytes()
            if content.startswith(b"GIF8"):
                name = f"{group.env_id}, {group.label}, seed {record.seed}"
                return Episode(name, record.score.value, base64.b64encode(content).decode())
    return None


def _commands(comparison: Comparison) -> Iterator[tuple[Group, list[str]]]:
    """The commands of the runs of each group, from their manifests."""
    for group in comparison.groups:
        lines = [str(record.manifest.get("command", "")) for record in group.records]
        if any(lines):
            yield group, list(filter(None, lines))


def _palette() -> str:
    light, dark = (
        "".join(f".c{index} {{ --c: {color}; }}\n" for index, color in enumerate(colors))
        for colors in (LIGHT_COLORS, DARK_COLORS)
    )
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
