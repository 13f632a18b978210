"""Wrappers and arguments of a task, as a configuration keeps them and as an environment has them.

A wrapper is a text: `module:Class`, or `module:Class {"argument": 1}`. A configuration may come
from a file, which must not decide what runs: only wrappers that a person named are imported.
"""

import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import gymnasium.wrappers
from gymnasium.envs.registration import EnvSpec

from capo.config import arguments_from_text, arguments_to_text
from capo.errors import UsageError, name_of
from capo.named import attribute, import_by_name

UNKNOWN = "?"
"""Begins a wrapper whose arguments are not known: that of an environment that was given."""
OWN = "gymnasium.wrappers"
HARMLESS = frozenset(
    {
        "AtariPreprocessing", "AddWhiteNoise", "ClipAction", "ClipReward", "DelayObservation",
        "DiscretizeAction", "DiscretizeObservation", "DtypeObservation", "FilterObservation",
        "FlattenObservation", "FrameStackObservation", "GrayscaleObservation",
        "MaxAndSkipObservation", "NormalizeObservation", "NormalizeReward", "ObstructView",
        "RepeatAction", "RescaleAction", "RescaleObservation", "ReshapeObservation",
        "ResizeObservation", "StickyAction", "TimeAwareObservation", "TimeLimit",
    }
)  # fmt: skip
"""Gymnasium's own wrappers that a file may ask for: they neither write, nor show, nor call."""
_named: dict[str, Callable[..., Any]] = {}
"""Wrappers that a person named in this process, by `module:Class`."""


class Dressing(NamedTuple):
    """What `gym.make` of an id leaves out: arguments as JSON, and wrappers."""

    env_kwargs: str = ""
    wrappers: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as a dictionary."""
        return arguments_from_text(self.env_kwargs, name_of("env_kwargs"))


ATARI = (
    f'{OWN}:AtariPreprocessing {{"noop_max": 30}}',
    f'{OWN}:FrameStackObservation {{"stack_size": 4}}',
)
BARE = Dressing()
"""No arguments and no wrappers."""


def import_wrappers(wrappers: Iterable[str]) -> None:
    """Imports wrappers that a person named, which may then be used."""
    for text in wrappers:
        module, name, _ = _split(text)
        path = f"{module}:{name}"
        _named[path] = import_by_name(path, "wrapper")


def texts_of(wrappers: Iterable[Any]) -> tuple[str, ...]:
    """The texts of wrappers that a person gave: classes, or texts, which are imported."""
    texts = []
    for each in wrappers:
        if isinstance(each, str):
            import_wrappers([each])
        elif callable(each) and "<" not in getattr(each, "__qualname__", "<"):
            _named[path := f"{each.__module__}:{each.__qualname__}"] = each
            each = path
        else:
            raise UsageError(
                f"{each!r} is not a wrapper that can be named; define a class or a function in a "
                "module, or write 'module:Class {\"argument\": 1}'"
            )
        texts.append(each)
    return tuple(texts)


def preprocessed(
    name: str, wrappers: Sequence[str], kwargs: Mapping[str, Any]
) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Wrappers and arguments of a registered id: those given, or the usual ones of Atari's games.

    EnvPool has the same: grey pictures of 84 × 84, every fourth step, the last four of them.
    """
    entry = gym.spec(name).entry_point
    if wrappers or "frameskip" in kwargs or not str(entry).startswith("ale_py."):
        return wrappers, kwargs
    return ATARI, {"frameskip": 1, "repeat_action_probability": 0.0, **kwargs}


def make_dressed(
    task: str | EnvSpec, wrappers: Sequence[str], kwargs: Mapping[str, Any]
) -> gym.Env:
    """One environment, with arguments, in the wrappers, the first one innermost."""
    what = task if isinstance(task, str) else task.id
    try:
        env = gym.make(task, **kwargs)
        for what in wrappers:
            make = _find(what)
            assert make is not None, "check_wrappers comes first"
            env = make(env, **_split(what)[2])
            if not isinstance(env, gym.Env):
                raise UsageError(f"the wrapper {what} makes {type(env).__name__}, no gymnasium.Env")
    except TypeError as error:
        if not (wrappers or kwargs):
            raise
        raise UsageError(f"{what} does not take its arguments: {error}") from error
    return env


def check_wrappers(wrappers: Sequence[str]) -> None:
    """Raises UsageError if a wrapper may not be used; the text says what allows all of them."""
    for text in wrappers:
        if text.startswith(UNKNOWN):
            raise UsageError(
                f"the policy was trained in an environment that was given, in "
                f"{text.removeprefix(UNKNOWN)}; give it again: env=… in Python, or "
                f"{name_of('wrappers')} with its arguments"
            )
        if _find(text) is None:
            again = " ".join(f"{name_of('wrappers')} {shlex.quote(each)}" for each in wrappers)
            typed = name_of("wrappers").startswith("-")
            again = again if typed else f"wrappers={list(wrappers)}"
            raise UsageError(
                f"the wrapper {text} is named by a file, so it is not imported; "
                f"if you trust it, name it yourself: {again}"
            )


def needs_naming(wrappers: Iterable[str]) -> bool:
    """Whether a person has to name one of the wrappers when they come from a file."""
    return any(not _harmless(text) for text in wrappers)


def dressing_of(env: gym.Env) -> Dressing:
    """How an environment differs from `gym.make` of its id."""
    spec = env.spec
    if spec is None or spec.id not in gym.registry:
        return Dressing()
    plain = gym.registry[spec.id]
    arguments = {
        name: value
        for name, value in spec.kwargs.items()
        if name != "render_mode" and (name not in plain.kwargs or plain.kwargs[name] != value)
    }
    if spec.max_episode_steps != plain.max_episode_steps:
        arguments["max_episode_steps"] = spec.max_episode_steps
    wrappers = [_text(each) for each in spec.additional_wrappers[len(plain.additional_wrappers) :]]
    try:
        return Dressing(arguments_to_text(arguments), tuple(wrappers))
    except UsageError:
        return Dressing("", (f"{UNKNOWN}{spec.id} with {', '.join(arguments)}", *wrappers))


def _text(wrapper: Any) -> str:
    """The text of a wrapper of `EnvSpec.additional_wrappers`."""
    module, _, name = wrapper.entry_point.partition(":")
    path = f"{OWN if module.startswith(f'{OWN}.') else module}:{name}"
    if wrapper.kwargs is None:
        # The environment has it, so it is imported.
        found = attribute(sys.modules.get(module), name)
        if found is None or len(inspect.signature(found).parameters) != 1:
            return UNKNOWN + path
        _named[path] = found
        return path
    try:
        arguments = arguments_to_text(wrapper.kwargs)
    except UsageError:
        return UNKNOWN + path
    import_wrappers([path])
    return f"{path} {arguments}" if arguments else path


def _split(text: str) -> tuple[str, str, dict[str, Any]]:
    """Module, name and arguments."""
    path, brace, rest = text.partition("{")
    module, _, name = path.strip().partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise UsageError(
            f"{text!r} is not a wrapper; write module:Class, or "
            "'module:Class {\"argument\": 1}' with its arguments"
        )
    return module, name, arguments_from_text(brace + rest, f"the argument of {module}:{name}")


def _find(text: str) -> Callable[..., Any] | None:
    """The wrapper of a text; None unless a person named it or it is harmless."""
    module, name, _ = _split(text)
    if (path := f"{module}:{name}") in _named:
        return _named[path]
    return getattr(gymnasium.wrappers, name) if _harmless(text) else None


def _harmless(text: str) -> bool:
    module, name, _ = _split(text)
    return module == OWN and name in HARMLESS
