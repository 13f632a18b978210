"""The command line: what was asked for, or one line about what was wrong with it."""

import contextlib
import functools
import inspect
import io
import os
import re
import sys
from collections.abc import Callable

import tyro

from capo.commands import COMMANDS
from capo.commands.resume import import_typed, saved_configs
from capo.config import Config, UsageError
from capo.format import one_line
from capo.screen import TITLE, screen, version


def main(argv: list[str] | None = None) -> int:
    """Runs a command; a mistake in its words is one line on standard error and exit code 2."""
    try:
        code = _main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough, as in `capo list | head`; the exit must not try again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _main(words: list[str]) -> int:
    if words in ([], ["-h"], ["--help"]):
        print(screen(COMMANDS))
        return 0
    if words == ["--version"]:
        print(f"capo {version()}")
        return 0
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            call = parse(words)
    except SystemExit as stop:
        if stop.code == 2:
            return _fail(_one_line(complaint.getvalue()), 2)
        sys.stdout.flush()
        raise
    except UsageError as error:
        return _fail(str(error), 2)
    return _run(call)


def parse(words: list[str]) -> Callable[[], int]:
    """The call that the words ask for; what they do not say about a resumed run is as it was."""
    for saved, named in saved_configs(words):
        call = _parse(words, saved)
        config = call.keywords["config"]
        if named or config == saved:
            import_typed(config.env_id, words)
            return call
    return _parse(words)


def _parse(words: list[str], default: Config | None = None) -> functools.partial[int]:
    commands = {name: _later(function, default) for name, function in COMMANDS.items()}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="capo", description=TITLE, args=words
    )


def _later(function, default: Config | None):
    """The same command line, but what comes out of parsing is the call, not its result.

    `default` is what stands in for a configuration.
    """

    @functools.wraps(function)
    def parsed(*args, **kwargs):
        return functools.partial(function, *args, **kwargs)

    signature = inspect.signature(function)
    if default is not None and "config" in signature.parameters:
        config = signature.parameters["config"].replace(default=default)
        changed = {**signature.parameters, "config": config}
        again = signature.replace(parameters=list(changed.values()))
        parsed.__signature__ = again  # pyright: ignore[reportAttributeAccessIssue]
    return parsed


def _run(call) -> int:
    from capo.envs import EnvError
    from capo.faults import NonFiniteError

    try:
        return call()
    except UsageError as error:
        return _fail(str(error), 2)
    except (EnvError, NonFiniteError) as error:
        return _fail(str(error), 1)
    except OSError as error:
        if error.filename is None or isinstance(error, BrokenPipeError):
            raise
        return _fail(f"{error.filename}: {error.strerror}", 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _fail(message: str, code: int) -> int:
    # Parts of it may come out of a file, and a terminal would obey its control characters.
    print("capo: " + one_line(message, most=2000), file=sys.stderr)
    return code


def _one_line(framed: str) -> str:
    """The message in tyro's framed complaint, and what it suggests, if anything.

    The frame is drawn with lines, or with dashes under a title where the terminal has no lines, and
    coloured where it has colours.
    """
    sections: list[list[str]] = [[]]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", framed)
    for line in (line.strip(" │") for line in plain.splitlines()):
        if line.startswith("╭") or (line and set(line) <= set("─-╰╯")):
            sections.append([])
        elif line:
            sections[-1].append(line)
    message, *hints = [s for s in sections[1:] if s] or [[plain]]
    said = re.sub(r"^Error parsing __tyro\S*: ", "", " ".join(message)).removesuffix(".")
    for hint in hints:
        if hint[0] == "Perhaps you meant:":
            said += f"; did you mean {hint[1].split()[0]}?"
        elif hint[0].startswith("Available subcommands"):
            said += "; " + hint[0][0].lower() + hint[0][1:]
    return said
