"""Objects by name: `module:name`, as a person writes it on the command line or in Python."""

import importlib
from typing import Any

from capo.errors import UsageError


def import_by_name(path: str, what: str) -> Any:
    """The callable `module:name`, which a person named: never one that only a file names.

    `what` says in errors what it is to be.
    """
    module, _, name = path.partition(":")
    try:
        found = attribute(importlib.import_module(module), name)
    except ImportError as error:
        raise UsageError(f"the {what} {path} cannot be imported: {error}") from error
    if not callable(found):
        raise UsageError(f"there is no {what} {name} in the module {module}")
    return found


def attribute(module: Any, name: str) -> Any:
    """The attribute of a dotted name; None if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module
