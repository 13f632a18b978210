"""Refuses a page that would fetch something from elsewhere when it is read."""

import re

FETCHED = re.compile(
    r'<(?:script|img|iframe|link)\b(?![^>]*rel="(?:canonical|prev|next)")'
    r'[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"'
)


def on_post_page(output, page, **_):
    """Looks at the finished page."""
    from mkdocs.exceptions import PluginError

    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {found[1]}")
    return output
