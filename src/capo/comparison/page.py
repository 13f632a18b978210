"""A comparison as one HTML file."""

import itertools
from importlib import resources

from capo.comparison import Comparison
from capo.comparison.looks import DARK, LIGHT
from capo.comparison.sections import sections
from capo.format import count
from capo.webpage import made_with, render


def page(found: Comparison, command: str) -> bytes:
    """The whole report, with the command that made it."""
    records = itertools.chain.from_iterable(group.records for group in found.groups)
    versions = (record.manifest.get("versions") for record in records)
    return render(
        "capo compare",
        title(found),
        _lead(found),
        sections(found, command),
        [made_with(versions, "It is not known what the runs were trained with.")],
        _read("page.css") + _palette(),
        _read("page.js"),
    )


def title(found: Comparison) -> str:
    """Reads: ppo and capo on CartPole-v1; or how many there are, if there are many."""
    labels, envs = (
        " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        if len(names) < 4
        else f"{len(names)} {plural}"
        for names, plural in ((found.labels, "algorithms"), (found.envs, "environments"))
    )
    return f"{labels} on {envs}"


def _lead(found: Comparison) -> str:
    sizes = sorted({len(result.scores) for result in found.results})
    seeds = f"{sizes[0]} to {sizes[-1]} seeds" if len(sizes) > 1 else count(sizes[0], "seed")
    runs = sum(len(result.scores) for result in found.results)
    return (
        f"{count(runs, 'run')}, {seeds} each. Bands and brackets are "
        f"{100 * found.confidence:g}% bootstrap intervals over seeds."
    )


def _palette() -> str:
    light, dark = (
        "".join(f".c{index} {{ --c: {color}; }}\n" for index, color in enumerate(colors))
        for colors in (LIGHT, DARK)
    )
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _read(name: str) -> str:
    return resources.files("capo.comparison").joinpath(name).read_text(encoding="utf-8")
