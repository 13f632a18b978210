"""HTML pages, each one self-contained file.

Templates escape all values. The content security policy in the head of a page permits no request,
and no style or script except the page's own, which it knows by their hashes.
"""

import base64
import functools
import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from capo.report.format import clock, compact, count, rounded, typeset, with_error


def render(template: str, style: str, script: str = "", **values: Any) -> bytes:
    """The page of a template, named by its path in the package, with values for its variables."""
    page = _environment().get_template(template)
    own = {"style": style, "script": script, "policy": _policy(style, script)}
    return page.render(**own, **values).encode(errors="replace")


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("capo", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for each in (clock, compact, count, rounded, typeset, with_error):
        made.filters[each.__name__] = each
    return made


def read_source(name: str) -> str:
    """The text of a style sheet or script, named by its path in the package."""
    return resources.files("capo").joinpath(name).read_text("utf-8")


def trained_with(several: Iterable[Any]) -> str:
    """A sentence with the versions that runs were trained with."""
    seen: dict[str, dict[str, None]] = {}
    for versions in several:
        for name, version in versions.items() if isinstance(versions, dict) else ():
            if version:
                seen.setdefault(str(name), {})[str(version)] = None
    listed = ", ".join(f"{name} {' and '.join(versions)}" for name, versions in seen.items())
    return f"Trained with {listed}." if listed else "The versions of the runs are unknown."


def _policy(style: str, script: str) -> str:
    """The content security policy of a page with this style and script."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"{scripts}base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
