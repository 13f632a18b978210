"""Links that leave docs/, made to lead somewhere on the site.

The pages link to the sources as one does in a repository: ../src/capo/ppo.py. The site has no
repository to point at, so it shows those files itself: a page of highlighted code each.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN = (
    "src/capo/**/*.py",
    "src/capo/paper/*.json",
    "examples/*.py",
    "benchmarks/**/*.py",
    "LICENSE",
    "CITATION.cff",
)
WHOLE = {"CHANGELOG.md": "changelog.md", "README.md": "index.md"}
"""Files outside docs/ that are pages in their own right."""
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def source_page(path: str) -> str:
    """Where the site shows a file of the repository."""
    return WHOLE.get(path, f"source/{path}.md")


def source_markdown(path: str) -> str:
    """A page that is nothing but the file; left out of the search, which is for prose."""
    text = (ROOT / path).read_text()
    fence = "`" * (3 + text.count("```"))
    language = "python" if path.endswith(".py") else "text"
    name = path.rsplit("/", 1)[-1]
    front = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{front}# `{path}`\n\n{fence}{language}\n{text}{fence}\n"


def on_files(files, config):
    """Adds the changelog and the sources as pages."""
    from mkdocs.structure.files import File

    changelog = (ROOT / "CHANGELOG.md").read_text()
    files.append(File.generated(config, "changelog.md", content=changelog))
    for pattern in SHOWN:
        for file in sorted(ROOT.glob(pattern)):
            path = file.relative_to(ROOT).as_posix()
            page = File.generated(config, source_page(path), content=source_markdown(path))
            files.append(page)
    return files


def on_page_markdown(markdown, page, **_):
    """Points links to files outside docs/ at their pages."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    home = "" if page.file.src_uri == "changelog.md" else "docs"
    folder = posixpath.dirname(page.file.src_uri)

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, folder, match[1]))
        inside = target.startswith("docs/")
        return posixpath.relpath(target[5:] if inside else source_page(target), folder or ".")

    return LINK.sub(lead, markdown)
