"""Values out of a file against the types of a dataclass's fields."""

import reprlib
import typing
from typing import Any, Literal

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def wrong_type(value: Any, hint: Any) -> str | None:
    """What is wrong with a value of a field, in words; None if nothing is.

    Strict: true is no number, 1.0 is no whole number, a text is no list.
    """
    if _fits(value, hint):
        return None
    return f"{reprlib.repr(value)}; it must be {_words(hint)}"


def _fits(value: Any, hint: Any) -> bool:
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind is Literal:
        return isinstance(value, str) and value in parts
    if kind is tuple:
        return isinstance(value, list | tuple) and all(_fits(each, parts[0]) for each in value)
    if parts:
        return any(_fits(value, part) for part in parts)
    if hint is float:
        # A whole number beyond the floats would overflow where it is first compared.
        return type(value) is float or (type(value) is int and abs(value) < 1e300)
    return type(value) is hint


def _words(hint: Any) -> str:
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind is Literal:
        return f"one of {', '.join(parts)}"
    if kind is tuple:
        return f"a list, each of it {_words(parts[0])}"
    if parts:
        return " or ".join(map(_words, parts))
    return WORDS.get(hint, "null")
