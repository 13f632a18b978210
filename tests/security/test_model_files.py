"""A model file of unknown origin is safe to open: no code, little memory, an error of one line."""

import json
import os
import pickle
import subprocess
import sys
import zipfile

import gymnasium as gym
import pytest

from capo import Model, UsageError
from capo.config import Config
from support import hostile_files
from support.policies import blank_model

MOST = 500
"""Megabytes that all of the files together may take, besides the imports."""
JUDGE = """
import contextlib, io, json, resource, sys
from capo.cli.main import main

def judged(path):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["eval", path, "--episodes", "1"])
    return code, err.getvalue(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

good, limited, paths = json.load(sys.stdin)
found = {"good": judged(good)}
found |= {path: judged(path) for path in paths if path not in limited}
size = next(int(x.split()[1]) for x in open("/proc/self/status") if x.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size * 1024 + %d * 2**20, -1))
found |= {path: judged(path) for path in limited}
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    config = Config("CartPole-v1", algo="ppo", hidden=(4,), backend="gymnasium")
    env = gym.make("CartPole-v1")
    blank_model(config, env.observation_space, env.action_space).save(path)
    return path


def judge(good, paths, limited, canary_folder):
    """Exit code, standard error and peak memory of `capo eval` for each, in one process."""
    path = os.pathsep.join([str(canary_folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", JUDGE % MOST],
        input=json.dumps([str(good), [str(p) for p in limited], [str(p) for p in paths]]),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def well_refused(path, code, said, peak, before):
    """The error is one readable line that names the file, and memory stayed low."""
    good = code == 2 and said.startswith("capo: ") and path in said and len(said) < 1000
    one = said.endswith("\n") and said[:-1].isprintable()
    return good and one and "llocate" not in said and "Memory" not in said and peak < before + MOST


def test_hostile_files_are_refused_with_one_line(good, tmp_path):
    canary = tmp_path / "canary"
    modules, folder = tmp_path / "modules", tmp_path / "files"
    modules.mkdir()
    folder.mkdir()
    (modules / "strangers_module.py").write_text(f"open({str(canary)!r}, 'w')\n")
    contents = [
        *hostile_files.strange(canary),
        *hostile_files.broken(good.read_bytes()),
        *hostile_files.dishonest(good, "strangers_module"),
    ]
    files = []
    for index, (name, content) in enumerate(contents):
        files.append(folder / f"{index}-{name.replace('/', '-')}.safetensors")
        files[-1].write_bytes(content)
    assert len(files) == len(set(files)) > 150
    places = [path for _, path in hostile_files.placed(tmp_path, good)]
    found = judge(good, [*places, *files], files, modules)
    code, said, before = found.pop("good")
    assert (code, said) == (0, "")
    wrong = [(path, *rest) for path, rest in found.items() if not well_refused(path, *rest, before)]
    assert not wrong
    assert len(found) == len(files) + len(places)
    assert not canary.exists()


def test_the_hostile_files_would_run_code(tmp_path):
    """Otherwise the test above would prove nothing."""
    canary = tmp_path / "canary"
    contents = dict(hostile_files.strange(canary))
    pickle.loads(contents["pickle"])["policy"].close()  # noqa: S301
    assert canary.exists()


def test_control_characters_of_a_path_are_not_printed(tmp_path):
    file = tmp_path / "\x1b[2Jmodel\x07.safetensors"
    file.write_bytes(b"nothing")
    command = [sys.executable, "-m", "capo", "eval", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_a_model_of_stable_baselines3_is_named_as_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "ppo.zip", "w") as file:
        file.writestr("data", "{}")
    with pytest.raises(UsageError, match="is a zip file, as Stable-Baselines3 saves"):
        Model.load(tmp_path / "ppo.zip")
