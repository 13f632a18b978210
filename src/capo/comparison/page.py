"""A comparison as one HTML file that needs nothing else, and reaches for nothing else.

Whatever comes from a run folder is escaped, and the policy at the head of the page lets nothing run
but the page's own script, by its hash.
"""

import base64
import hashlib
import itertools
from html import escape
from importlib import resources
from string import Template

from capo.comparison import Comparison
from capo.comparison.looks import DARK, LIGHT
from capo.comparison.sections import sections
from capo.format import count


def page(found: Comparison, command: str) -> bytes:
    """The whole report, with the command that made it."""
    style, script = _read("page.css") + _palette(), _read("page.js")
    text = Template(_read("page.html")).substitute(
        policy=escape(_policy(style, script)),
        title=escape(title(found)),
        style=style,
        script=script,
        lead=escape(_lead(found)),
        sections=sections(found, command),
        footer=escape(_versions(found)),
    )
    return text.encode(errors="replace")


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


def _versions(found: Comparison) -> str:
    """What the runs were made with; several versions of one thing are all named."""
    seen: dict[str, dict[str, None]] = {}
    for record in itertools.chain.from_iterable(group.records for group in found.groups):
        versions = record.manifest.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            if version:
                seen.setdefault(str(name), {})[str(version)] = None
    said = ", ".join(f"{name} {' and '.join(versions)}" for name, versions in seen.items())
    return f"Trained with {said}." if said else "It is not known what the runs were trained with."


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, and nothing may run or style that is not this page's own."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{style}'; "
        f"script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )


def _palette() -> str:
    light, dark = (
        "".join(f".c{index} {{ --c: {color}; }}\n" for index, color in enumerate(colors))
        for colors in (LIGHT, DARK)
    )
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _read(name: str) -> str:
    return resources.files("capo.comparison").joinpath(name).read_text(encoding="utf-8")
