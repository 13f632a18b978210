"""The command line: parses the words, runs the command, reports an error in one line."""

import contextlib
import difflib
import functools
import io
import os
import re
import sys
from collections.abc import Callable

import tyro

import capo
from capo.cli.resuming import (
    default_config,
    given_config,
    import_typed,
    postponed,
    saved_configs,
    zoo_configs,
)
from capo.cli.screen import TITLE, screen
from capo.cli.verbs import COMMANDS
from capo.config import Config
from capo.errors import UsageError, speaking_flags
from capo.storage.text import one_line


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit code: 2, with one line on stderr, for wrong input."""
    try:
        with speaking_flags():
            code = _main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as in `capo list | head`; do not flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _main(words: list[str]) -> int:
    if words in ([], ["-h"], ["--help"]):
        print(screen(COMMANDS))
        return 0
    if words == ["--version"]:
        print(f"capo {capo.__version__}")
        return 0
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        return _fail(_no_verb(words[0]), 2)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            call = parse(words)
    except SystemExit as stop:
        if stop.code == 2:
            return _fail(_one_line(complaint.getvalue(), words[0]), 2)
        sys.stdout.flush()
        raise
    except UsageError as error:
        return _fail(str(error), 2)
    return _run(call)


def parse(words: list[str]) -> Callable[[], int]:
    """The call of the words; a file or a resumed run supplies the settings that they leave out."""
    if (given := given_config(words)) is not None:
        call = _parse(words, given)
        import_typed(call.keywords["config"], words)
        return call
    for saved, named in saved_configs(words):
        call = _parse(words, saved)
        config = call.keywords["config"]
        if named or config == saved:
            import_typed(config, words)
            return call
    for task, given in zoo_configs(words):
        call = _parse(words, given)
        if call.keywords["config"].env_id == task:
            return call
    return _parse(words, default_config(words))


def _parse(words: list[str], default: Config) -> functools.partial[int]:
    if default.wrappers and any(word.partition("=")[0] == "--wrapper" for word in words):
        default = default.replace(wrappers=())  # those of the words, not both
    return tyro.extras.subcommand_cli_from_dict(
        postponed(COMMANDS, default), prog="capo", description=TITLE, args=words
    )


def _run(call) -> int:
    from capo.errors import EnvError, NonFiniteError

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
    # The message may quote a file, whose control characters a terminal would obey.
    print("capo: " + one_line(message, most=2000), file=sys.stderr)
    return code


def _no_verb(word: str) -> str:
    """What there is instead of a verb that there is not."""
    if word == "resume":
        return "there is no verb resume; a run goes on with capo train --resume RUN"
    close = difflib.get_close_matches(word, COMMANDS, n=1)
    hint = f"; did you mean {close[0]}? There are" if close else "; there are"
    return f"there is no verb {word}{hint} {', '.join(COMMANDS)}"


def _suggestion(flag: str, verb: str) -> str:
    """The flag of the verb that is nearest to an unknown one; empty if none is near."""
    listed = io.StringIO()
    with contextlib.redirect_stdout(listed), contextlib.suppress(SystemExit):
        _parse([verb, "--help"], default_config([]))
    known = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", listed.getvalue()))
    close = difflib.get_close_matches(flag.partition("=")[0], known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def _one_line(framed: str, verb: str) -> str:
    """The message in the framed error of tyro, and the flag that may have been meant.

    The frame is of box-drawing characters, or of dashes under a title in a terminal without them,
    and may be coloured.
    """
    sections: list[list[str]] = [[]]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", framed)
    for line in (line.strip(" │") for line in plain.splitlines()):
        if line.startswith("╭") or (line and set(line) <= set("─-╰╯")):
            sections.append([])
        elif line:
            sections[-1].append(line)
    message, *_ = [s for s in sections[1:] if s] or [[plain]]
    said = re.sub(r"^Error parsing __tyro\S*: ", "", " ".join(message)).removesuffix(".")
    if "config.env-id" in said or said.startswith("Missing from capo train: ENV"):
        return f"which environment? write it after the verb: capo {verb} Hopper-v4"
    if unknown := re.match(r"Unrecognized options: (--[^\s,]+)", said):
        said += _suggestion(unknown[1], verb)
    return said
