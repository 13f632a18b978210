"""capo completion."""

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import tyro

from capo.cli.resuming import default_config, postponed

BASH = """
_capo() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words
  _tyro_capo "$@"
  [[ $cur == -* ]] && return
  case "$COMP_CWORD $prev" in
    "2 train") words="{envs}" ;;
    "2 completion") words="bash zsh" ;;
    *" --algo") words="{algos}" ;;
    2\\ *) COMPREPLY=() ;;
  esac
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
  # Bash completes the names of files, with a slash after a folder.
  [[ -z "${{COMPREPLY[*]}}" || ( $COMP_CWORD -gt 1 && -e ${{COMPREPLY[0]}} ) ]] && COMPREPLY=()
}}
complete -o default -F _capo capo
"""
ZSH = """
case "$CURRENT $words[CURRENT-1]" in
  "3 train") compadd -- {envs} ;;
  "3 completion") compadd -- bash zsh ;;
  *" --algo") compadd -- {algos} ;;
  "3 "*) _files ;;
  *) (( compstate[nmatches] )) || _files ;;
esac
"""
MORE = {"bash": BASH, "zsh": ZSH}
"""Additions to the scripts of tyro: tasks, methods, and file names for runs."""


def completion_verb(commands: Mapping[str, Callable[..., int]]) -> Callable[..., int]:
    """The command `completion` for the command line of `commands`."""

    def completion(shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional]) -> int:
        """Print a script for completion with the Tab key.

        Example: source <(capo completion bash)

        Args:
            shell: bash: source the script; zsh: save it as _capo in a folder of $fpath.
        """
        import gymnasium as gym

        from capo.methods import METHODS

        more = MORE[shell].format(envs=" ".join(gym.registry), algos=" ".join(METHODS))
        print(_tyro_script(shell, commands) + more)
        return 0

    return completion


def _tyro_script(shell: str, commands: Mapping[str, Callable[..., int]]) -> str:
    """The completion script that tyro generates from the commands' signatures."""
    words = ["--tyro-write-completion", shell, "-"]
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        usual = postponed(commands, default_config([]))
        tyro.extras.subcommand_cli_from_dict(usual, prog="capo", args=words)
    # zsh counts words from 1, the script from 0.
    return script.getvalue().removesuffix("\n").replace('"$CURRENT" <<', '"$((CURRENT - 1))" <<')
