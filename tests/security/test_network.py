"""Training and evaluation do not use the network."""

import subprocess
import sys

import pytest

from support.commands import TINY

CAUGHT = 77
HOOK = f"""
import os, sys
REACHING = ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto", "urllib.",
            "socket.gethostbyname", "http.client.", "ftplib.", "smtplib.", "webbrowser.")

def caught(event, args):
    if event.startswith(REACHING):
        os.write(2, f"{{event}} {{args}}".encode())
        os._exit({CAUGHT})

sys.addaudithook(caught)
"""
COMMANDS = (
    HOOK + "from capo.cli.main import main\nsys.exit(any(main(x.split()) for x in sys.argv[1:]))\n"
)


def test_training_and_evaluating_stay_offline(tmp_path):
    train = f"train CartPole-v1 --algo ppo {' '.join(TINY)} --run-dir run"
    words = [train, "eval run --episodes 1", "compare run", "list ."]
    command = [sys.executable, "-c", COMMANDS, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "compare" / "report.html").exists()
    assert done.stdout.count("CartPole-v1") > 3, "all of them have had their say"


@pytest.mark.parametrize(
    "line",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('localhost', 9)",
        "import socket; socket.socket().bind(('127.0.0.1', 0))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
    ],
)
def test_the_hook_catches_network_access(line):
    done = subprocess.run([sys.executable, "-c", HOOK + line], capture_output=True, text=True)
    assert done.returncode == CAUGHT
