"""No line of the package can run code from a file.

Ruff forbids the usual ways (rules S and TID251 in pyproject.toml); these tests find the others.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "capo"
TRUSTING = PACKAGE / "sb3.py"
"""Reads models of Stable-Baselines3, which are pickles, only with `--trust`."""
COMPUTED = {
    "__init__.py": ["import_module(…)"],  # names of the table in the same file
    "envs/registry.py": ["import_module(…)"],  # import_module_of: ids that a person wrote
    "named.py": ["import_module(…)"],  # import_by_name: what a person wrote
    "runs/tracking.py": ["import_module(…)"] * 2,  # wandb or trackio, as asked for
}
"""Allowed imports of computed names, with the reason for each."""
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "spec_from_file_location"}
UNSAFE = {
    ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("np", "load"),
    ("numpy", "load"), ("torch", "load"), ("runpy", "run_path"), ("jnp", "load"),
}  # fmt: skip
MODULES = {
    "pickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "runpy", "code",
}  # fmt: skip


def findings(source):
    """The calls and imports that could run code from a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found += _call(node)
        elif isinstance(node, ast.Import):
            found += [x.name for x in node.names if x.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append(node.module)
    return found


def _call(node):
    owner, name = None, getattr(node.func, "id", None)
    if isinstance(node.func, ast.Attribute):
        owner, name = getattr(node.func.value, "id", None), node.func.attr
    plain = owner is None or owner in ("builtins", "os", "util")
    if (name in CALLS and plain) or (owner, name) in UNSAFE:
        yield f"{name}(…)"
    if name == "import_module" and not (node.args and isinstance(node.args[0], ast.Constant)):
        yield "import_module(…)"
    for word in node.keywords:
        off = isinstance(word.value, ast.Constant) and word.value.value is False
        if word.arg in ("allow_pickle", "shell") and not off:
            yield f"{word.arg}=…"


def test_the_package_runs_no_code_from_files():
    files = [path for path in PACKAGE.rglob("*.py") if path != TRUSTING]
    assert len(files) > 50
    found = {str(p.relative_to(PACKAGE)): findings(p.read_text()) for p in files}
    assert {name: said for name, said in found.items() if said} == COMPUTED


@pytest.mark.parametrize(
    "line",
    [
        "np.load(f, allow_pickle=True)", "read(f, allow_pickle=flag)", "yaml.load(text)",
        "eval(text)", "exec(text)", "builtins.exec(text)", "compile(text, '', 'exec')",
        "__import__(name)", "importlib.import_module(name)", "import_module(f'{name}')",
        "import pickle", "from pickle import loads", "import dill as json", "import joblib.memory",
        "torch.load(f)", "os.system(text)", "subprocess.run(text, shell=True)",
        "importlib.util.spec_from_file_location('a', f)", "runpy.run_path(f)",
    ],
)  # fmt: skip
def test_dangerous_lines_are_found(line):
    assert findings(f"def read(text):\n    {line}\n")


def test_harmless_lines_are_not_found():
    source = "import json\nre.compile(x)\nmodel.eval()\nimport_module('glfw')\nModel.load(path)\n"
    assert findings(source) == []
