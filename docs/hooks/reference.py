"""The parts of the reference that are written by the code itself, so that they cannot go stale.

A comment in a page stands for them, which a reader on GitHub does not see:
`<!-- api: capo.core.fisher.decompose -->` for a docstring (`api-itself` leaves out a class's
methods), `<!-- generated: config -->` for the table of fields, `<!-- generated: cli -->` for what
`capo VERB --help` prints. What is between `<!-- github -->` and `<!-- /github -->` is for GitHub.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"
MARK = re.compile(r"<!-- (api|api-itself|generated): (\S+) -->")
ELSEWHERE = re.compile(r"<!-- github -->.*?<!-- /github -->\n*", re.DOTALL)
GROUPS = {
    "capo.config": ("Run", "Rollout", "Schedule"),
    "capo.core.settings": (
        "Network", "Advantage", "Adam", "PPO", "Critic", "Expert", "TRPO", "Step", "Distill",
    ),
}  # fmt: skip
"""The groups of the configuration by their modules, in the order of the page."""


def class_definition(name: str) -> ast.ClassDef | None:
    """The class of a dotted name, None if it is something else."""
    module, _, last = name.rpartition(".")
    file = SOURCES.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return None
    nodes = ast.parse(file.read_text()).body
    return next((n for n in nodes if isinstance(n, ast.ClassDef) and n.name == last), None)


def fields(definition: ast.ClassDef) -> list[tuple[ast.AnnAssign, str]]:
    """The annotated fields of a class with the string under each."""
    found = []
    for node, after in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
            said = after.value if isinstance(after, ast.Expr) else None
            text = str(said.value).replace("|", r"\|") if isinstance(said, ast.Constant) else ""
            found.append((node, " ".join(text.split())))
    return found


def code(node: ast.AST | None) -> str:
    """An expression as code in a table."""
    return "" if node is None else f"`{ast.unparse(node)}`".replace("|", r"\|")


def api(name: str, methods: bool) -> str:
    """A directive for mkdocstrings; a class has its fields in a table, not under a heading each."""
    definition = class_definition(name)
    if definition is None:
        return f"::: {name}"
    functions = [node for node in definition.body if isinstance(node, ast.FunctionDef)]
    shown = [f.name for f in functions if methods and not f.name.startswith("_")]
    text = f"::: {name}\n    options:\n      members: {shown or 'false'}"
    if rows := [f"| {code(node.target)} | {code(node.annotation)} | {said} |"
                for node, said in fields(definition)]:  # fmt: skip
        text = "\n".join([text, "", "| field | type | |", "|---|---|---|", *rows])
    return text


def config_table() -> str:
    """Every field of the configuration with its default, its choices and what it says of itself."""
    groups = [f"{module}.{name}Settings" for module, names in GROUPS.items() for name in names]
    return "\n".join(line for name in groups for line in _group_table(name))


def _group_table(name: str) -> list[str]:
    definition = class_definition(name)
    assert definition is not None, f"there is no {name}"
    title = (ast.get_docstring(definition) or "").removesuffix(".")
    lines = ["", f"## {title}", "", "| field | default | |", "|---|---|---|"]
    for node, said in fields(definition):
        choices = ""
        if (
            isinstance(node.annotation, ast.Subscript)
            and code(node.annotation.value) == "`Literal`"
        ):
            words = re.findall(r"[\w-]+", ast.unparse(node.annotation.slice))
            choices = "<br>" + ", ".join(f"`{word}`" for word in words)
        lines.append(f"| {code(node.target)} | {code(node.value)} | {said}{choices} |")
    return lines


def help_texts() -> str:
    """What the command line prints about itself, a section for each command."""
    from capo.cli.verbs import COMMANDS

    def printed(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "capo", *words, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        )
        return f"```text\n{done.stdout.strip()}\n```"

    sections = [f"## capo {verb}\n\n{printed(verb)}" for verb in COMMANDS]
    return "\n\n".join([printed(), *sections])


GENERATED = {"config": config_table, "cli": help_texts}


def on_page_markdown(markdown, **_):
    """Puts docstrings, tables and help texts where the comments are."""

    def fill(match: re.Match[str]) -> str:
        kind, name = match.groups()
        return GENERATED[name]() if kind == "generated" else api(name, methods=kind == "api")

    return MARK.sub(fill, ELSEWHERE.sub("", markdown))
