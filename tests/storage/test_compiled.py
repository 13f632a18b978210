"""The cache of compiled programs: its folder, its limit, and how to switch it off."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from capo.storage.compiled import MOST_BYTES, SWITCH, _prune, cache_folder, prepare_jax

COMPILE = """
import gymnasium as gym, jax
from capo.config import Config
from capo.methods import settle
from capo.state import first_generation
from capo.train import compile_programs
sizes = dict(num_envs=2, num_steps=16, minibatches=2, epochs=1, total_steps=64, warmup=0.0)
spaces = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)
config = settle(Config("x", algo="ppo", hidden=(4,), diagnostics=0, **sizes), spaces[0])
compile_programs(config, first_generation(config, *spaces))
print(jax.config.jax_compilation_cache_dir)
"""


def compiled(folder, **more):
    """The cache folder that a process printed, and its standard error."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", SWITCH))}
    environ |= {SWITCH: str(folder), **more}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


def large(folder):
    """The sizes of the two update programs; smaller ones are cached only if they compile slowly."""
    return {path.name: path.stat().st_size for path in folder.glob("jit__*_program-*")}


@pytest.mark.slow
def test_programs_are_cached_and_a_damaged_one_is_replaced(tmp_path):
    said, complaints = compiled(tmp_path)
    folder = Path(said)
    assert folder.is_relative_to(tmp_path)
    assert not complaints
    kept = large(folder)
    assert len(kept) == 2
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:40])
    assert compiled(tmp_path) == (said, "")
    assert compiled(tmp_path) == (said, "")
    again = large(folder)
    assert again.keys() == kept.keys()
    # Two processes may lay the same program out differently, by some bytes.
    assert all(again[name] > 0.9 * kept[name] for name in kept)


@pytest.mark.slow
def test_the_cache_can_be_switched_off_or_left_to_jax(tmp_path):
    assert compiled("off", HOME=str(tmp_path), XDG_CACHE_HOME="") == ("None", "")
    assert not list(tmp_path.iterdir())
    theirs = tmp_path / "theirs"
    assert compiled(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(theirs))[0] == str(theirs)
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_an_unusable_folder_is_ignored(tmp_path):
    (tmp_path / "file").touch()
    assert compiled(tmp_path / "file") == ("None", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_folder_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert str(cache_folder()).startswith(str(tmp_path / "capo" / "xla"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert str(cache_folder()).startswith(str(tmp_path / "home" / ".cache" / "capo"))
    monkeypatch.setenv(SWITCH, "~/mine")
    assert str(cache_folder()).startswith(str(tmp_path / "home" / "mine"))


@pytest.mark.parametrize("word", ["", "0", "off", "OFF", "no"])
def test_values_that_switch_the_cache_off(monkeypatch, word):
    monkeypatch.setenv(SWITCH, word)
    assert cache_folder() is None


def test_the_oldest_programs_are_deleted_above_the_limit(tmp_path):
    for age in range(6):
        path = tmp_path / str(age)
        with path.open("wb") as file:
            file.truncate(MOST_BYTES // 5)
        os.utime(path, (1000 - age, 1000 - age))
    _prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    _prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_settings_of_the_user_are_kept(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(SWITCH, str(tmp_path))
    prepare_jax()
    assert before is not None
    assert jax.config.jax_compilation_cache_dir == before
    assert not list(tmp_path.iterdir())
