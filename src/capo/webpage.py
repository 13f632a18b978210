"""A page that is one file, needs nothing else, and reaches for nothing else.

Whatever comes from a file is escaped, and the policy at the head of the page lets nothing run or
style it but what is its own, by its hash.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any


def render(
    generator: str,
    title: str,
    lead: str,
    sections: str,
    footer: Sequence[str],
    style: str,
    script: str = "",
) -> bytes:
    """The whole page; `sections` is HTML, a `footer` has a paragraph for each line."""
    text = Template((resources.files("capo") / "webpage.html").read_text("utf-8")).substitute(
        generator=escape(generator),
        policy=escape(_policy(style, script)),
        title=escape(title),
        style=style,
        lead=escape(lead),
        sections=sections,
        footer="".join(f"<p>{escape(line)}</p>" for line in footer),
        script=f"<script>{script}</script>\n" if script else "",
    )
    return text.encode(errors="replace")


def made_with(found: Iterable[Any], unknown: str) -> str:
    """What runs were trained with, from their versions; several of one thing are all named.

    `unknown` is said if none of them tells.
    """
    seen: dict[str, dict[str, None]] = {}
    for versions in found:
        for name, version in versions.items() if isinstance(versions, dict) else ():
            if version:
                seen.setdefault(str(name), {})[str(version)] = None
    said = ", ".join(f"{name} {' and '.join(versions)}" for name, versions in seen.items())
    return f"Trained with {said}." if said else unknown


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, and nothing may run or style that is not this page's own."""
    runs = f"script-src '{_hash(script)}'; " if script else ""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"{runs}base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
