"""What `capo` says when it is asked for nothing in particular: all verbs on one screen."""

import importlib.metadata
import re
from collections.abc import Callable, Mapping

TITLE = "Consensus Aggregation for Policy Optimization: train wider, not deeper."


def version() -> str:
    """Of the installed package."""
    return importlib.metadata.version("capo-rl")


def screen(commands: Mapping[str, Callable[..., int]]) -> str:
    """Two lines a verb, from its docstring: what it does, and an example."""
    lines = [TITLE, "", "usage: capo VERB [OPTIONS]", ""]
    indent = 2 + max(map(len, commands)) + 2
    for name, function in commands.items():
        lines.append(f"  {name}".ljust(indent) + summary(function))
        lines.append(" " * indent + example(function))
    lines += ["", "capo VERB --help has the options of a verb, capo --version the version."]
    return "\n".join(lines)


def summary(function: Callable[..., int]) -> str:
    """The first line of a command's docstring."""
    return (function.__doc__ or "").partition("\n")[0]


def example(function: Callable[..., int]) -> str:
    """The command in the `Example:` line of a command's docstring."""
    found = re.search(r"^\s*Example: (.*)$", function.__doc__ or "", re.MULTILINE)
    return found[1] if found else ""
