"""The configurations that supply what the words of `capo train` leave out."""

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

from capo import zoo
from capo.config import Config
from capo.presets import PRESETS


def default_config(words: list[str]) -> Config:
    """The defaults of the method and preset that the words name; the task is missing."""
    preset: Any = _value(words, "--preset")
    return _without_task(words, preset if preset in PRESETS else "auto")


def zoo_configs(words: list[str]) -> Iterator[tuple[str, Config]]:
    """Tasks of the zoo among the words, each with the settings that it supplies."""
    if words[:1] == ["train"] and _value(words, "--preset") in (None, "auto"):
        algo = _value(words, "--algo") or Config.algo
        for task in dict.fromkeys(word for word in words if word in zoo.tasks()):
            yield task, _without_task(words, "auto", **zoo.row(task, algo))


def _without_task(words: list[str], preset: Any, **fields: Any) -> Config:
    config = Config("-", _value(words, "--algo") or Config.algo, preset=preset, **fields)
    object.__setattr__(config, "env_id", tyro.MISSING)
    return config


def given_config(words: list[str]) -> Config | None:
    """The configuration in the file that `capo train --config` names."""
    if words[:1] != ["train"] or (file := _value(words, "--config")) is None:
        return None
    from capo.runs.resume import load_config

    return load_config(Path(file))


def postponed(
    commands: Mapping[str, Callable[..., int]], default: Config
) -> dict[str, Callable[..., Any]]:
    """The same command lines, but parsing returns the call instead of its result.

    `default` is the default of the configuration.
    """
    return {name: _postponed(function, default) for name, function in commands.items()}


def _postponed(function: Callable[..., int], default: Config) -> Callable[..., Any]:
    @functools.wraps(function)
    def parsed(*args, **kwargs):
        return functools.partial(function, *args, **kwargs)

    signature = inspect.signature(function)
    if "config" in signature.parameters:
        config = signature.parameters["config"].replace(default=default)
        changed = {**signature.parameters, "config": config}
        again = signature.replace(parameters=list(changed.values()))
        parsed.__signature__ = again  # pyright: ignore[reportAttributeAccessIssue]
    return parsed


def saved_configs(words: list[str]) -> Iterator[tuple[Config, bool]]:
    """Configurations of the runs that the words may resume, and whether the words name the run.

    Each in turn supplies the settings that the words leave out.
    """
    if words[:1] != ["train"] or (resume := _value(words, "--resume")) is None:
        return
    from capo.runs.resume import candidates, run_folder_of, saved_config

    if resume != "auto":
        yield saved_config(run_folder_of(Path(resume))), True
        return
    run_dir = _value(words, "--run-dir")
    for folder in candidates(None if run_dir is None else Path(run_dir)):
        yield saved_config(folder), run_dir is not None


def import_typed(config: Config, words: list[str]) -> None:
    """Imports the modules of a task and of wrappers that the words name, not of saved ones."""
    typed = {*words, *(word.partition("=")[2] for word in words if word.startswith("--"))}
    task = config.env_id if config.env_id in typed else ""
    network = config.network if config.network in typed else ""
    import_named(task, [each for each in config.wrappers if each in typed], network)


def import_named(env_id: str, wrappers: Sequence[str], network: str) -> None:
    """Imports what a person named: the module of a task `module:id`, wrappers, a network.

    The modules may be in the working directory.
    """
    if ":" in env_id or wrappers or ":" in network:
        from capo.core.own_network import import_network
        from capo.envs.registry import import_module_of
        from capo.envs.wrapping import import_wrappers

        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)
        import_module_of(env_id)
        import_wrappers(wrappers)
        if ":" in network:
            import_network(network)


def _value(words: list[str], name: str) -> str | None:
    """The value of the last option `name VALUE` or `name=VALUE`."""
    value = None
    for word, after in itertools.zip_longest(words, words[1:]):
        if word == name:
            value = after
        elif word.startswith(f"{name}="):
            value = word.removeprefix(f"{name}=")
    return value
