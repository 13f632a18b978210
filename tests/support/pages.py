"""The code on the pages of the documentation.

A comment on the line before a block says that it does not run in every test:
`<!-- not run: why -->` for an excerpt, which only has to compile, or `<!-- needs: package -->`,
which runs in tests/peers.
"""

import importlib.util
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<mark>[ ]*<!-- [^\n]*-->\n)?"
    r"(?P<indent>[ ]*)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Code on a page."""

    page: Path
    line: int
    language: str
    code: str
    skipped: str
    """Why it does not run here; empty if it does."""

    def __str__(self):
        return f"{name(self.page)}:{self.line}"

    def compiled(self):
        padded = "\n" * self.line + self.code
        return compile(padded, str(self.page), "exec")


def name(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    text = page.read_text()
    for found in FENCE.finditer(text):
        if found["language"] == language:
            line = text[: found.start("code")].count("\n")
            code = textwrap.dedent(found["code"])
            yield Block(page, line, language, code, why_not(found["mark"] or ""))


def why_not(mark):
    if reason := re.search(r"<!-- not run: (.*?) -->", mark):
        return reason[1]
    packages = re.search(r"<!-- needs: (.*?) -->", mark)
    wanted = packages[1].split(", ") if packages else []
    missing = [package for package in wanted if importlib.util.find_spec(package) is None]
    return f"needs {', '.join(missing)}" if missing else ""


PYTHON = {name(page): list(blocks(page, "python")) for page in PAGES}


def run_blocks(page):
    """Runs the blocks of a page, which share their variables."""
    namespace = {"__name__": "page"}
    for block in PYTHON[page]:
        if not block.skipped:
            exec(block.compiled(), namespace)
