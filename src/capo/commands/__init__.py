"""The commands, a file each. What is heavy is imported where it is needed: --help is quick."""

from capo.commands.compare import compare_runs
from capo.commands.completion import completion
from capo.commands.diagnose import diagnose
from capo.commands.evaluate import evaluate_run
from capo.commands.export import export
from capo.commands.listing import list_runs
from capo.commands.play import play
from capo.commands.reproduce import reproduce
from capo.commands.train import train

COMMANDS = {
    "train": train,
    "eval": evaluate_run,
    "play": play,
    "compare": compare_runs,
    "list": list_runs,
    "export": export,
    "diagnose": diagnose,
    "reproduce": reproduce,
    "completion": completion,
}
