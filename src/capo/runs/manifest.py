"""The manifest of a checkpoint as typed values. Nothing outside this module sees its JSON."""

import math
import re
import reprlib
from typing import Any, NamedTuple

from capo.state import Recent

NAME = re.compile(r"[\w.+!()<> -]{1,100}", re.ASCII)
"""Names of backends, packages, versions and callbacks: nothing in them controls a terminal."""
LARGEST = 2**53
"""Largest count; larger ones are not exact as floats."""
LAST_GENERATION = 10**8 - 2
"""The name of a checkpoint's folder has eight digits."""
LAST_SEED = 2**31 - 1


class Written(NamedTuple):
    """Extent of the files of the run folder at a checkpoint."""

    rows: int = 0
    """Rows of metrics.jsonl."""
    bytes: int = 0
    """Size of metrics.jsonl."""
    wall_seconds: float = 0.0


RENAMED = {"kept": "nonfinite"}
"""Names of earlier versions."""


class Facts(NamedTuple):
    """Everything in a manifest besides the configuration, the spaces and the list of files."""

    generation: int
    reset_seed: int
    seconds: float
    recent: Recent
    written: Written
    backend: str
    callbacks: list[Any]
    """[name, state] of each callback with a state."""
    versions: dict[str, str | None]
    devices: int


def facts_of(manifest: dict[str, Any]) -> Facts:
    """The checked values; anything else raises ValueError, KeyError or TypeError."""
    recent = {RENAMED.get(str(name), str(name)): x for name, x in dict(manifest["recent"]).items()}
    return Facts(
        generation=_whole("generation", manifest["generation"], most=LAST_GENERATION),
        reset_seed=_whole("reset_seed", manifest["reset_seed"], most=LAST_SEED),
        seconds=_real("seconds", manifest["seconds"], least=0.0),
        recent=_recent(**recent),
        written=_written(**manifest["progress"]),
        backend=_name("backend", manifest["backend"]),
        callbacks=[_callback(*each) for each in _list("callbacks", manifest["callbacks"])],
        versions=_versions(**manifest["versions"]),
        devices=_whole("devices", manifest["devices"], least=1),
    )


def _recent(
    returns: Any,
    lengths: Any,
    warming: Any,
    rate_scale: Any = 1.0,
    nonfinite: Any = 0,
    entropy_scale: Any = 1.0,
    successes: Any = None,
) -> Recent:
    if not isinstance(warming, bool):
        raise _wrong("warming", warming, "true or false")
    return Recent(
        returns=tuple(_real("returns", each) for each in _list("returns", returns)),
        lengths=tuple(_whole("lengths", each) for each in _list("lengths", lengths)),
        warming=warming,
        rate_scale=_real("rate_scale", rate_scale, least=0.0),
        nonfinite=_whole("nonfinite", nonfinite),
        entropy_scale=_real("entropy_scale", entropy_scale, least=0.0),
        successes=tuple(_real("successes", each) for each in _list("successes", successes or [])),
    )


def _written(rows: Any, bytes: Any, wall_seconds: Any) -> Written:
    return Written(
        rows=_whole("rows", rows),
        bytes=_whole("bytes", bytes),
        wall_seconds=_real("wall_seconds", wall_seconds, least=0.0),
    )


def _callback(name: Any, state: Any) -> list[Any]:
    return [_name("callbacks", name), state]


def _versions(**listed: Any) -> dict[str, str | None]:
    return {
        _name("versions", package): None if version is None else _name("versions", version)
        for package, version in listed.items()
    }


def _whole(what: str, value: Any, least: int = 0, most: int = LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _wrong(what, value, f"a whole number from {least} to {most}")
    return value


def _real(what: str, value: Any, least: float = -math.inf) -> float:
    good = type(value) in (int, float) and abs(value) < math.inf
    if not good or abs(value) > 1e300 or value < least:
        raise _wrong(what, value, "a finite number" + (" of at least 0" if least == 0 else ""))
    return float(value)


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise _wrong(what, value, "a plain name")
    return value


def _list(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(what, value, "a list")
    return value


def _wrong(what: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"its {what} is {reprlib.repr(value)}; it must be {wanted}")
