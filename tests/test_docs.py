"""Examples, code on the pages, commands and links of the documentation work."""

import dataclasses
import re
import runpy
import shlex
import tomllib

import pytest

import capo
from capo import METHODS, Config
from capo.cli import main as cli
from capo.errors import flag
from support.pages import FENCE, PAGES, PYTHON, ROOT, blocks, name, run_blocks
from support.probes import but_slow


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, elsewhere, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert re.search(r"\d", capsys.readouterr().out)


LONG = (
    "README.md",
    "docs/index.md",
    "docs/observations.md",
    "docs/reliability.md",
    "docs/your-own-consensus.md",
)
RUN = [page for page, found in PYTHON.items() if found]


@pytest.mark.parametrize("page", but_slow(RUN, *(set(RUN) - {*LONG})))
def test_python_on_the_page_runs(page, elsewhere):
    run_blocks(page)


@pytest.mark.parametrize(
    "block", [b for found in PYTHON.values() for b in found if b.skipped], ids=str
)
def test_python_that_does_not_run_compiles(block):
    assert block.compiled()


def commands():
    for page in PAGES:
        for block in blocks(page, "sh"):
            code = block.code.replace("\\\n", " ")
            for variable, first in re.findall(r"for (\w+) in (\S+)", code):
                code = code.replace(f"${variable}", first)
            for line in code.splitlines():
                yield name(page), shlex.split(line, comments=True)


CAPO = [(page, shlex.join(words)) for page, words in commands() if words[:1] == ["capo"]]


@pytest.mark.parametrize(("page", "command"), CAPO)
def test_commands_are_understood(page, command, monkeypatch, capsys):
    """They are parsed, not run."""
    monkeypatch.setattr(cli, "_run", lambda call: 0)
    try:
        assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    except SystemExit as stop:
        assert stop.code == 0, "--help"


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = {words[1] for _, words in commands() if words[:1] == ["make"]}
    for page in PAGES:
        targets |= set(re.findall(r"`make ([\w-]+)`", page.read_text()))
    assert targets
    for target in targets:
        assert f"\n{target}:" in makefile, target


def test_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page in PAGES:
        for extras in re.findall(r"(?:capo-rl|\.)\[([\w,]+)\]'", page.read_text()):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), page
    told = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert set(told) == set(project["optional-dependencies"]), "the table of extras"


def test_names_in_the_migration_tables_exist():
    """In the second column of the tables for users of other libraries."""
    fields = {field.name for field in dataclasses.fields(Config)}
    flags = {flag(field) for field in fields} | {
        f"--no-{field.replace('_', '-')}" for field in fields
    }
    text = (ROOT / "docs" / "coming-from.md").read_text()
    first, _, third = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table, known, pattern in ((first, fields, r"`(\w+)`"), (third, flags, r"`(--[\w-]+)")):
        ours = [row.split(" | ")[1] for row in table.splitlines()[2:]]
        names = {found for cell in ours for found in re.findall(pattern, cell)}
        assert len(names) > 10
        assert names <= known


def test_the_classes_of_the_methods_are_named_right():
    page = (ROOT / "docs" / "methods" / "index.md").read_text()
    rows = re.findall(r"^\| \[`([\w-]+)`\]\([\w-]+\.md\) \| `(\w+)` \|", page, re.MULTILINE)
    assert {method: getattr(capo, name).algo for method, name in rows} == {m: m for m in METHODS}


def anchors(page):
    """The anchors that GitHub and the site make of a page's headings."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_that_name_a_file_lead_to_it(page):
    for named, link in re.findall(r"\[`([\w./]+\.(?:py|json))`\]\(([^)#]+)", page.read_text()):
        assert f"/{link}".endswith(f"/{named}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_local_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
