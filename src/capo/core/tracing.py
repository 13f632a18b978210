"""Settings as arguments of compiled programs: floats are traced, the rest selects the program."""

import dataclasses
from typing import Any, TypeVar, get_type_hints

import jax

from capo.core.settings import PolicySettings, ValueSettings

Group = TypeVar("Group", PolicySettings, ValueSettings)


def traced(group: type) -> list[str]:
    """The names of a group's floats."""
    hints = get_type_hints(group)
    return [f.name for f in dataclasses.fields(group) if hints[f.name] in (float, float | None)]


def part(group: type[Group], config: Any) -> Group:
    """The fields of a group out of a configuration."""
    return group(**{field.name: getattr(config, field.name) for field in dataclasses.fields(group)})


def _register(group: type) -> None:
    """Makes a group a node of a pytree, with its floats as leaves; None is no leaf."""
    floats = traced(group)
    fixed = [field.name for field in dataclasses.fields(group) if field.name not in floats]

    def flatten(settings: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values = vars(settings)
        return tuple(values[name] for name in floats), tuple(values[name] for name in fixed)

    def unflatten(chosen: tuple[Any, ...], numbers: tuple[Any, ...]) -> Any:
        # Not by the constructor, which takes numbers: while a program is traced there are none.
        settings = object.__new__(group)
        values = zip((*floats, *fixed), (*numbers, *chosen), strict=True)
        vars(settings).update(values)
        return settings

    jax.tree_util.register_pytree_node(group, flatten, unflatten)


_register(PolicySettings)
_register(ValueSettings)
