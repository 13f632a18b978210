"""The commands, one file each. They import large packages on use, so --help is fast."""

from capo.cli.compare import compare_runs
from capo.cli.completion import completion_verb
from capo.cli.diagnose import diagnose
from capo.cli.eval import evaluate_runs
from capo.cli.export import export
from capo.cli.list import list_runs
from capo.cli.play import play
from capo.cli.reproduce import reproduce_paper
from capo.cli.sweep import sweep
from capo.cli.train import train

COMMANDS = {
    "train": train,
    "sweep": sweep,
    "eval": evaluate_runs,
    "play": play,
    "compare": compare_runs,
    "list": list_runs,
    "export": export,
    "diagnose": diagnose,
    "reproduce": reproduce_paper,
}
COMMANDS["completion"] = completion_verb(COMMANDS)
