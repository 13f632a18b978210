"""The command `capo list`."""

import json
import os
import pty
import subprocess
import sys

import pytest

from capo.cli.main import main
from support.run_folders import make_run


def listed(capsys, *words):
    assert main(["list", *map(str, words)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("metrics.jsonl", b'{"steps": 1}\nnot json\n{"steps": 2}\n', "line 2 is not a row"),
        ("metrics.jsonl", b'{"steps": 1}\n[]\n', "line 2 is not a row"),
        ("metrics.jsonl", b'{"steps": "many"}\n', "line 1 is not a row"),
        ("metrics.jsonl", b"\xff\xfe\n", "cannot be read"),
        ("config.json", b'{"env_id": "X"', "not a JSON object"),
        ("config.json", b"[1]", "not a JSON object"),
        ("config.json", b'{"env_id": "X", "algo": "ppo"}', "has no seed"),
        ("manifest.json", b"", "not a JSON object"),
        ("eval.json", b"7", "not a JSON object"),
    ],
)
def test_a_broken_folder_is_one_row_and_the_others_are_listed(name, content, why, tmp_path, capsys):
    (make_run(tmp_path / "broken") / name).write_bytes(content)
    make_run(tmp_path / "good", score=5.0)
    *_, last = listed(capsys, tmp_path).splitlines()
    assert last.startswith("unreadable: ")
    assert why in last
    good, broken = json.loads(listed(capsys, tmp_path, "--json"))
    assert good["return"] == 5.0
    assert broken["path"] == str(tmp_path / "broken")
    assert broken["status"] == "unreadable"
    assert why in broken["reason"]


def test_values_of_the_wrong_type_are_shown_as_missing(tmp_path, capsys):
    """A huge integer, a text for a number, an invalid date: the run is still listed."""
    changed = {"wall_seconds": "long", "started": "yesterday"}
    folder = make_run(tmp_path / "a", manifest=changed)
    (folder / "metrics.jsonl").write_text('{"steps": 5, "return": 1' + "0" * 400 + "}\n")
    (folder / "eval.json").write_text('{"mean": NaN}')
    (row,) = json.loads(listed(capsys, tmp_path, "--json"))
    assert row["return"] is row["wall_seconds"] is row["started"] is None
    assert listed(capsys, tmp_path).splitlines()[1].split()[3:] == [
        "5/1M", "–", "finished", "–", "–", str(folder)
    ]  # fmt: skip


def test_the_table(tmp_path, capsys):
    late = {"started": "2026-01-02T08:30:00+0000", "status": "running"}
    del_wall = make_run(tmp_path / "late", algo="capo", seed=12, returns=(10, 33.5), manifest=late)
    manifest = json.loads((del_wall / "manifest.json").read_text())
    del manifest["wall_seconds"]
    (del_wall / "manifest.json").write_text(json.dumps(manifest))
    make_run(tmp_path / "early", score=1234.0)
    head, first, second, star = listed(capsys, tmp_path).splitlines()
    assert head.split()[:4] == ["env", "algo", "seed", "steps"]
    assert first.split() == [
        "CartPole-v1", "capo", "12", "8.19k/1M", "33.5*", "running", "01-02", "08:30", "0:03",
        str(tmp_path / "late"),
    ]  # fmt: skip
    assert second.split()[4:8] == ["1234", "±", "1", "finished"]
    assert first.index("8.19k") == second.index("8.19k")
    assert star.startswith("* the last training return")


def test_json_has_every_field(tmp_path, capsys):
    make_run(tmp_path / "a", score=7.0)
    (row,) = json.loads(listed(capsys, tmp_path, "--json"))
    assert row == {
        "path": str(tmp_path / "a"), "env_id": "CartPole-v1", "algo": "ppo", "seed": 1,
        "steps": 8192, "total_steps": 1e6, "return": 7.0, "standard_error": 1.25,
        "evaluated": True, "status": "finished", "started": "2026-01-01T12:00:00+00:00",
        "wall_seconds": 75.0,
    }  # fmt: skip


def test_no_runs_is_no_error_but_a_wrong_path_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert listed(capsys) == "no runs in runs\n"
    assert listed(capsys, ".") == "no runs in .\n"
    assert listed(capsys, "--json") == "[]\n"
    assert main(["list", "nowhere"]) == 2
    assert capsys.readouterr().err == "capo: there is no run or folder nowhere\n"


def test_control_characters_in_a_name_are_removed(tmp_path, capsys):
    make_run(tmp_path / "a", env_id="\x1b[31mred")
    assert "\x1b" not in listed(capsys, tmp_path)


def test_in_a_narrow_terminal_the_folder_is_on_its_own_line(tmp_path):
    make_run(tmp_path / "CartPole-v1__ppo__1__20260101-120000", score=5.0)
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "capo", "list", "."]
    shape = {**os.environ, "COLUMNS": "80"}
    subprocess.run(words, cwd=tmp_path, stdout=theirs, stderr=theirs, env=shape, check=True)
    head, row, folder = os.read(ours, 65536).decode().splitlines()
    os.close(theirs)
    os.close(ours)
    assert max(len(head), len(row)) <= 80
    assert folder == "  CartPole-v1__ppo__1__20260101-120000"


@pytest.mark.parametrize("words", ["list .", "list --help"])
def test_a_closed_pipe_prints_no_error(words, tmp_path):
    make_run(tmp_path / "a")
    command = [sys.executable, "-m", "capo", *words.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_listing_does_not_import_jax(tmp_path):
    code = (
        "import sys; from capo.cli.main import main; main(['list', '.']); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
