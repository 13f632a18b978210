"""The sections of the page, top to bottom."""

import base64
import itertools
import json
from html import escape

import numpy as np

from capo.comparison import Comparison, svg
from capo.comparison.curves import split
from capo.comparison.groups import Group
from capo.comparison.looks import Look
from capo.comparison.tables import results_table, runs_table
from capo.comparison.text import TRAINED
from capo.format import count, figure, typeset

LARGEST_GIF = 3_000_000
OPEN_UP_TO = 12
"""With more runs than this, the commands are folded away."""


def sections(found: Comparison, command: str) -> str:
    """All of them; those that there is nothing for are left out."""
    parts = [_learning(found), _final(found), _split(found), _policies(found), _runs(found)]
    return "\n".join([*filter(None, parts), _commands(found, command)])


def _section(heading: str, about: str, content: str) -> str:
    return f'<section><h2>{heading}</h2><p class="about">{about}</p>{content}</section>'


def _learning(found: Comparison) -> str:
    """A figure for each environment: the chart, and a legend that reads it."""
    if not found.curves:
        return ""
    figures = []
    for env_id, pairs in itertools.groupby(found.curves, key=lambda pair: pair[0].env_id):
        here = list(pairs)
        labels = ", ".join(group.label for group, _ in here)
        chart = svg.learning(
            [(found.looks[group.label], line) for group, line in here],
            f"Learning curves of {labels} on {env_id}",
        )
        items = "".join(
            f"<li>{_swatch(found.looks[group.label])}<span>{escape(group.label)} "
            f'<span class="seeds">{count(line.seeds, "seed")}</span></span><output></output></li>'
            for group, line in here
        )
        curves = json.dumps([[_digits(line.steps), _digits(line.mean)] for _, line in here])
        figures.append(
            f'<figure data-curves="{escape(curves)}"><h3>{escape(env_id)}</h3><div class="plot">'
            f'{chart}<ul class="legend">{items}<li class="steps hint">point at the chart to read '
            f"it</li></ul></div></figure>"
        )
    about = (
        "Return in training, the mean of the last 100 episodes, averaged over seeds, as far as all "
        "seeds of a group came."
    )
    return _section("Learning curves", about, f'<div class="cards">{"".join(figures)}</div>')


def _digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _swatch(look: Look) -> str:
    dashed = " dashed" * look.dashed
    return (
        f'<svg class="swatch" viewBox="0 0 24 12" aria-hidden="true">'
        f'<path class="line c{look.color}{dashed}" d="M2,6H22"/></svg>'
    )


def _final(found: Comparison) -> str:
    about = (
        "Mean ± standard error over seeds, the interquartile mean (IQM), and the probability that "
        "a run beats a run of the reference, ties counting half. A dash: two seeds are needed."
    )
    notes = [TRAINED] if any(result.trained for result in found.results) else []
    items = "".join(f"<li>{escape(note)}</li>" for note in [*notes, *found.notes])
    listed = f'<ul class="notes">{items}</ul>' if items else ""
    return _section("Final returns", about, results_table(found) + listed)


def _split(found: Comparison) -> str:
    """Where the KL went, where it was looked at; one scale for each environment."""
    charts = [(group, chart) for group in found.groups if (chart := split(group))]
    if not charts:
        return ""
    figures = []
    for env_id, pairs in itertools.groupby(charts, key=lambda pair: pair[0].env_id):
        here = list(pairs)
        area = svg.split_frame([chart for _, chart in here])
        figures += [
            f"<figure><h3>{escape(env_id)}, {escape(group.label)}</h3>"
            f"{svg.split(chart, area, f'Signal and waste of {group.label} on {env_id}')}</figure>"
            for group, chart in here
        ]
    key = "".join(
        f'<svg class="swatch dot-only key {name}" viewBox="0 0 10 10" aria-hidden="true"><circle '
        f'cx="5" cy="5" r="5"/></svg>{said} '
        for name, said in (
            ("signal", "signal c², the part of an update along the natural gradient;"),
            ("waste", "waste ‖ε‖², the rest;"),
            ("alignment", "alignment α, the share of signal."),
        )
    )
    key += "c² + ‖ε‖² is twice the KL. Means over seeds."
    return _section("Where the KL went", key, f'<div class="cards">{"".join(figures)}</div>')


def _policies(found: Comparison) -> str:
    figures = [_policy_figure(group) for group in found.groups]
    if not any(figures):
        return ""
    about = "One episode of the trained policy, for the first seed that has one recorded."
    return _section("Policies", about, f'<div class="cards">{"".join(figures)}</div>')


def _policy_figure(group: Group) -> str:
    for record in group.records:
        file = record.path / "play.gif"
        if file.is_file() and file.stat().st_size <= LARGEST_GIF:
            content = file.read_bytes()
            if not content.startswith(b"GIF8"):
                continue
            name = escape(f"{group.env_id}, {group.label}, seed {record.seed}")
            data = base64.b64encode(content).decode()
            score = typeset(figure(record.score.value))
            return (
                f'<figure><img alt="{name}" src="data:image/gif;base64,{data}">'
                f"<figcaption>{name}: return {score}</figcaption></figure>"
            )
    return ""


def _runs(found: Comparison) -> str:
    about = "Every run, with the return that stands for it."
    return _section("Runs", about, runs_table(found))


def _commands(found: Comparison, command: str) -> str:
    """The commands of every run, as its manifest has them, and this page's own."""
    runs = sum(len(group.records) for group in found.groups)
    opened = " open" if runs <= OPEN_UP_TO else ""
    parts = []
    for group in found.groups:
        lines = [str(record.manifest.get("command", "")) for record in group.records]
        lines = [line for line in lines if line]
        if lines:
            said = f"{group.env_id}, {group.label}: {count(len(lines), 'command')}"
            text = escape("\n".join(lines))
            parts.append(
                f"<details{opened}><summary>{escape(said)}</summary><pre>{text}</pre></details>"
            )
    own = f'<p class="about">This page:</p><pre class="alone">{escape(command)}</pre>'
    return _section("Commands", "What made each run.", "".join(parts) + own)
