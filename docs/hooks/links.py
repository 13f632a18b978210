"""Resolves links from docs/ to other folders of the repository.

The pages link to sources and pictures by path: ../src/capo/core/ppo.py, ../results/depth.png. The
site has a page of highlighted code for each source file, and a copy of each picture.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN = (
    "src/capo/**/*.py",
    "src/capo/paper/*.json",
    "examples/*.py",
    "benchmarks/*.py",
    "benchmarks/speed/*.py",
    "LICENSE",
    "CITATION.cff",
    "pyproject.toml",
)
PICTURES = ("results/*.png", "results/*/*.png")
WHOLE = {"CHANGELOG.md": "changelog.md", "README.md": "index.md"}
"""Files outside docs/ that are Markdown pages of the site."""
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def source_page(path: str) -> str:
    """The address on the site of a file of the repository."""
    return path if path.endswith(".png") else WHOLE.get(path, f"source/{path}.md")


def source_markdown(path: str) -> str:
    """A page with the source of a file; it is excluded from the search."""
    text = (ROOT / path).read_text()
    fence = "`" * (3 + text.count("```"))
    language = "python" if path.endswith(".py") else "text"
    name = path.rsplit("/", 1)[-1]
    front = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{front}# `{path}`\n\n{fence}{language}\n{text}{fence}\n"


def on_files(files, config):
    """Adds the changelog and the sources as pages, and the pictures of results/."""
    from mkdocs.structure.files import File

    changelog = (ROOT / "CHANGELOG.md").read_text()
    files.append(File.generated(config, "changelog.md", content=changelog))
    for pattern in SHOWN:
        for file in sorted(ROOT.glob(pattern)):
            path = file.relative_to(ROOT).as_posix()
            page = File.generated(config, source_page(path), content=source_markdown(path))
            files.append(page)
    for picture in sorted(file for pattern in PICTURES for file in ROOT.glob(pattern)):
        path = picture.relative_to(ROOT).as_posix()
        files.append(File.generated(config, path, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown, page, **_):
    """Points links to files outside docs/ at their addresses on the site."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    home = "" if page.file.src_uri == "changelog.md" else "docs"
    folder = posixpath.dirname(page.file.src_uri)

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, folder, match[1]))
        inside = target.startswith("docs/")
        return posixpath.relpath(target[5:] if inside else source_page(target), folder or ".")

    return LINK.sub(lead, markdown)
