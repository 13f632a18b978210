"""Which run `capo train --resume` means, and the configuration that it has."""

from collections.abc import Iterator
from pathlib import Path

from capo.config import Config, UsageError
from capo.files import RUNS


def saved_configs(words: list[str]) -> Iterator[tuple[Config, bool]]:
    """The configurations of the runs that the words may resume, and whether they name the run.

    Each in turn is the default that the words are read against: what they leave out is the run's.
    """
    if words[:1] != ["train"] or (resume := _value(words, "--resume")) is None:
        return
    from capo.resuming import run_of, saved_config

    if resume != "auto":
        yield saved_config(run_of(Path(resume))), True
        return
    run_dir = _value(words, "--run-dir")
    for folder in _candidates(None if run_dir is None else Path(run_dir)):
        yield saved_config(folder), run_dir is not None


def import_typed(env_id: str, words: list[str]) -> None:
    """Imports the module of a task `module:id` that is among the words, not only in the run."""
    if ":" in env_id and env_id in words:
        from capo.registry import import_module_of

        import_module_of(env_id)


def newest_run(run_dir: Path | None, config: Config) -> Path | None:
    """The run that `auto` means: `run_dir`, or the newest unfinished one of this configuration."""
    from capo.methods import resolve
    from capo.resuming import FREE, saved_config

    free = {name: getattr(config, name) for name in FREE}
    for folder in _candidates(run_dir):
        if run_dir is not None or saved_config(folder).replace(**free) == resolve(config):
            return folder
    return None


def _candidates(run_dir: Path | None) -> list[Path]:
    """`run_dir` if there is a run, or every unfinished one below runs/, newest checkpoint first."""
    from capo.checkpoint import FOLDER, found

    if run_dir is not None:
        there = (run_dir / "config.json").is_file() and not only_begun(run_dir)
        return [run_dir] if there else []
    last = {}
    for manifest in RUNS.glob("*/manifest.json"):
        paths = found(manifest.parent / FOLDER)
        if paths and _unfinished(manifest.parent):
            last[manifest.parent] = paths[-1].stat().st_mtime
    return sorted(last, key=last.__getitem__, reverse=True)


def _unfinished(folder: Path) -> bool:
    """Whether a run can go on, as far as its folder can be read."""
    from capo.records import read_object
    from capo.resuming import saved_config

    try:
        saved_config(folder)
        return read_object(folder / "manifest.json").get("status") != "finished"
    except UsageError:
        return False


def only_begun(folder: Path) -> bool:
    """Whether a run was ended before its first checkpoint, so that there is nothing to keep."""
    from capo.checkpoint import FOLDER

    saved = [path for path in (folder / FOLDER).glob("*") if path.suffix != ".partial"]
    begun, kept = (folder / "config.json", folder / "model.safetensors")
    return begun.is_file() and not saved and not kept.exists()


def _value(words: list[str], name: str) -> str | None:
    """The word after `name`, or after `name=`; the last one counts."""
    found = None
    for word, after in zip(words, [*words[1:], None], strict=True):
        if word == name:
            found = after
        elif word.startswith(f"{name}="):
            found = word.removeprefix(f"{name}=")
    return found
