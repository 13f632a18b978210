"""Nothing is shown that was not executed."""

import re
import runpy
from pathlib import Path

import pytest

from capo import METHODS

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    methods = dict(METHODS)
    runpy.run_path(str(example), run_name="__main__")
    METHODS.clear()
    METHODS.update(methods)
    assert re.search(r"\d", capsys.readouterr().out)


def test_the_readmes_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert BLOCKS
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), {})


def test_the_readmes_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\S+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_local_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
