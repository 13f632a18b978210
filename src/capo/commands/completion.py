"""capo completion."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import tyro

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
  # Names of files are left to bash, which puts a slash after a folder.
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
"""What tyro's scripts do not know: tasks, methods, and that a run is the name of a file."""


def completion(shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional]) -> int:
    """Print a script that lets the Tab key complete all of this.

    Example: source <(capo completion bash)

    Args:
        shell: bash: source what is printed; zsh: save it as _capo in a folder of $fpath.
    """
    import gymnasium as gym

    from capo.methods import METHODS

    more = {"bash": BASH, "zsh": ZSH}[shell]
    print(_script(shell) + more.format(envs=" ".join(gym.registry), algos=" ".join(METHODS)))
    return 0


def _script(shell: str) -> str:
    """The script that tyro makes from all commands."""
    from capo.cli import parse

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script"
        with contextlib.suppress(SystemExit):
            parse(["--tyro-write-completion", shell, str(file)])
        # zsh counts words from 1, tyro from 0.
        return file.read_text().replace('"$CURRENT" <<', '"$((CURRENT - 1))" <<')
