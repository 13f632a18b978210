"""The saved configurations against which the words of `capo train --resume` are parsed."""

from collections.abc import Iterator
from pathlib import Path

from capo.config import Config


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


def import_typed(env_id: str, words: list[str]) -> None:
    """Imports the module of a task `module:id` if the words name it, not for a saved id alone."""
    if ":" in env_id and env_id in words:
        from capo.envs.registry import import_module_of

        import_module_of(env_id)


def _value(words: list[str], name: str) -> str | None:
    """The value of the last option `name VALUE` or `name=VALUE`."""
    found = None
    for word, after in zip(words, [*words[1:], None], strict=True):
        if word == name:
            found = after
        elif word.startswith(f"{name}="):
            found = word.removeprefix(f"{name}=")
    return found
