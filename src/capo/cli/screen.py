"""The overview that `capo` prints without a verb: all verbs on one screen."""

import re
from collections.abc import Callable, Mapping

TITLE = "Consensus Aggregation for Policy Optimization: train wider, not deeper."


def screen(commands: Mapping[str, Callable[..., int]]) -> str:
    """The overview: two lines per verb, its summary and an example, from its docstring."""
    lines = [TITLE, "usage: capo VERB [OPTIONS]", ""]
    indent = 2 + max(map(len, commands)) + 2
    for name, function in commands.items():
        lines.append(f"  {name}".ljust(indent) + summary(function))
        lines.append(" " * indent + example(function))
    lines += ["capo VERB --help has the options of a verb, capo --version the version."]
    return "\n".join(lines)


def summary(function: Callable[..., int]) -> str:
    """The first line of a command's docstring."""
    return (function.__doc__ or "").partition("\n")[0]


def example(function: Callable[..., int]) -> str:
    """The command in the `Example:` line of a command's docstring."""
    match = re.search(r"^\s*Example: (.*)$", function.__doc__ or "", re.MULTILINE)
    return match[1] if match else ""
