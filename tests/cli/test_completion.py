"""Completion in the shell, with the printed scripts."""

import shlex
import shutil
import subprocess

import pytest

from capo.cli.main import main

ASK = """
source ./script
ask() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _capo
  echo "${COMPREPLY[*]}"
}
"""
COMPLETIONS = {
    ("capo", "ev"): "eval",
    ("capo", "train", "Hopper-v4", "--mini"): "--minibatches",
    ("capo", "train", "InvertedP"): "InvertedPendulum-v2 InvertedPendulum-v4 InvertedPendulum-v5",
    ("capo", "train", "Hopper-v4", "--algo", "capo"): "capo-avg capo",
    ("capo", "train", "Hopper-v4", "--preset", ""): "auto default corrected paper",
    ("capo", "play", "run", "--ep"): "--episodes",
    ("capo", "completion", "b"): "bash",
    # Nothing of ours, so that bash completes names of files.
    ("capo", "eval", ""): "",
    ("capo", "play", "run", "--out", "sc"): "",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = "\n".join(shlex.join(["ask", *words]) for words in COMPLETIONS)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK + asked + "\ncomplete -p capo"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    *found, registered = done.stdout.splitlines()
    assert dict(zip(COMPLETIONS, found, strict=True)) == COMPLETIONS
    assert registered == "complete -o default -F _capo capo"


ZSH_ASK = """
_describe() { print -rl -- "${(@P)2%%:*}" }
compadd() { shift; print -rl -- "$@" }
_files() { print FILES }
ask() {
  local -A compstate=(nmatches 1)
  local -a words=("$@")
  local CURRENT=$#
  print -r -- ${(f)"$(source ./script)"}
}
"""
ZSH_COMPLETIONS = {
    ("capo", "ev"): "eval",
    ("capo", "train", "Hopper-v4", "--mini"): "--minibatches",
    ("capo", "train", "Hopper-v4", "--preset", ""): "auto default corrected paper",
    ("capo", "completion", ""): "-h --help bash zsh",
}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_completes(tmp_path, capsys):
    """Functions that zsh defines only while a person types are replaced by ones that print."""
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = "\n".join(shlex.join(["ask", *words]) for words in ZSH_COMPLETIONS)
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH_ASK + asked], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr == ""
    found = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(ZSH_COMPLETIONS, found, strict=True)) == ZSH_COMPLETIONS
