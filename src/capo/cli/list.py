"""capo list."""

import json
import math
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from capo.errors import UsageError
from capo.report.format import NOTHING, aligned, clock, compact, rounded, with_error
from capo.storage.files import RUNS
from capo.storage.text import printable

if TYPE_CHECKING:
    from capo.runs.reading import SavedRun

HEADS = ("env", "algo", "seed", "steps", "return", "status", "started", "time")


def list_runs(
    folder: Annotated[Path, tyro.conf.arg(metavar="DIR"), tyro.conf.Positional] = RUNS,
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """List the runs in a folder, newest first.

    Example: capo list runs

    Args:
        folder: Folder with runs at any depth.
        as_json: Print JSON instead of a table.
    """
    from capo.runs.reading import find, read

    read_runs, broken = [], []
    for path in find([folder]) if folder.exists() or folder != RUNS else []:
        try:
            read_runs.append(read(path))
        except UsageError as error:
            broken.append((path, str(error)))
    read_runs.sort(key=lambda record: record.began, reverse=True)
    if as_json:
        listed = [_as_json(record) for record in read_runs]
        listed += [{"path": str(p), "status": "unreadable", "reason": why} for p, why in broken]
        print(json.dumps(listed, indent=2))
    elif read_runs or broken:
        print("\n".join(_table(read_runs, broken)))
    else:
        print(f"no runs in {folder}")
    return 0


def _table(records: list["SavedRun"], broken: list[tuple[Path, str]]) -> list[str]:
    """A line for each run, and another for its folder if the terminal is too narrow."""
    rows = [HEADS, *map(_cells, records)]
    lines = aligned(rows, right={2, 3, 4, 7})
    folders = ["folder", *(str(record.path) for record in records)]
    width = max(map(len, lines))
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    if width + 2 + max(map(len, folders)) <= room:
        known = aligned(list(zip(lines, folders, strict=True)))
    else:
        known = [lines[0]]
        for line, folder in zip(lines[1:], folders[1:], strict=True):
            known += [line, printable(f"  {folder}")]
    known = known if records else []
    known += [printable(f"unreadable: {why}") for _, why in broken]
    if any(record.score.mark for record in records):
        known.append("* the last training return; the others are evaluations, ± standard error")
    return known


def _cells(record: "SavedRun") -> tuple[str, ...]:
    score = record.score
    said = with_error(score.value, score.error) if score.evaluated else rounded(score.value)
    return (
        record.env_id,
        record.algo,
        str(record.seed),
        f"{compact(record.steps)}/{compact(record.asked)}",
        said + score.mark,
        record.status,
        f"{record.started:%m-%d %H:%M}" if record.started else NOTHING,
        clock(record.seconds),
    )


def _as_json(record: "SavedRun") -> dict[str, Any]:
    score, began = record.score, record.started
    entry = {
        "path": str(record.path),
        "env_id": record.env_id,
        "algo": record.algo,
        "seed": record.seed,
        "steps": record.steps,
        "total_steps": math.nan if math.isnan(record.asked) else int(record.asked),
        "return": score.value,
        "standard_error": score.error,
        "evaluated": score.evaluated,
        "status": record.status,
        "started": began.isoformat() if began else None,
        "wall_seconds": record.seconds,
    }
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in entry.items()}
