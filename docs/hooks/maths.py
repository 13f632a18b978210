"""Equations as MathML, made when the site is built: no script runs and none is fetched.

GitHub renders the same `$…$` and `$$…$$` by itself.
"""

import html
import re

FOUND = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def render(match: re.Match[str]) -> str:
    """One equation, as a block or in its line."""
    from latex2mathml.converter import convert

    display = "block" if match[1] == "div" else "inline"
    return convert(html.unescape(match[2]).strip(), display=display)


def on_page_content(content, **_):
    """Replaces what arithmatex marked."""
    return FOUND.sub(render, content)
