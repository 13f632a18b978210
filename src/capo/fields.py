"""Fields of the configuration: the description of each, and the type of a value from a file."""

import dataclasses
import difflib
import math
import reprlib
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from capo.errors import UsageError, name_of

MOST = 1_000_000
"""Upper limit of counts chosen by hand: environments, epochs."""

_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """Description of a field, besides its type and help text."""

    least: float | None = None
    """Smallest allowed value."""
    above: float | None = None
    """Largest value that is too small."""
    most: float | None = None
    """Largest allowed value."""
    on_resume: Literal["override", "never", "new-episodes", "always"] = "override"
    """Whether a resumed run may change it: with `override`, never, with `override` and only into
    new episodes, or without being asked."""
    decisive: bool = True
    """Decides the numbers of a run, once every `auto` is settled."""
    in_name: bool = True
    """Named in the label of a run that differs from the default."""
    compared: bool = True
    """Runs that differ in it are not seeds of one group."""
    before: Any = None
    """Value in files that are older than the field; None: the field's default."""
    of_method: bool = False
    """Belongs to methods with several experts, so the warmup by plain PPO does without it."""


def setting(default: Any = dataclasses.MISSING, **description: Any) -> Any:
    """A dataclass field with its description."""
    return dataclasses.field(default=default, metadata={_KEY: Setting(**description)})


def settings(config: Any) -> dict[str, Setting]:
    """The description of every field, by name."""
    plain = Setting()
    return {field.name: field.metadata.get(_KEY, plain) for field in dataclasses.fields(config)}


def names_where(config: Any, **wanted: Any) -> list[str]:
    """The names of the fields whose description has these values."""
    fields = settings(config).items()
    return [
        name
        for name, described in fields
        if all(getattr(described, key) == value for key, value in wanted.items())
    ]


def check_range(name: str, value: float, field: Setting) -> None:
    """Refuses a number that is not finite or outside its range."""
    least, above, most = field.least, field.above, field.most
    inside = (least is None or value >= least) and (most is None or value <= most)
    if math.isfinite(value) and inside and (above is None or value > above):
        return
    if least is not None and most is not None:
        wanted = f"between {least:.10g} and {most:.10g}"
    elif least is not None:
        finite = "" if isinstance(value, int) else "a finite number of "
        wanted = f"{finite}at least {least:g}"
    else:
        wanted = "a finite number" + ("" if above is None else f" above {above:g}")
    raise UsageError(f"{name_of(name)} is {value}; it must be {wanted}")


def check_names(cls: type, names: Iterable[str]) -> None:
    """Refuses a name that is no field of `cls`, with the nearest."""
    known = [field.name for field in dataclasses.fields(cls)]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"there is no field {name!r} in capo.{cls.__name__}{hint}")


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def wrong_type(value: Any, hint: Any) -> str | None:
    """Error message about the type of a value; None if it fits.

    Strict: a bool is not a number, 1.0 is not an integer, a string is not a list.
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
        return "a list of texts" if parts[0] is str else "a list of whole numbers"
    if parts:
        return " or ".join(map(_words, parts))
    return WORDS.get(hint, "null")
