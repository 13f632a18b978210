"""capo list, and the reading of run folders under it."""

import json
import math
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from capo.cli import main
from capo.config import UsageError
from capo.records import find, read
from folders import make_run


def listed(capsys, *words):
    assert main(["list", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_record_is_what_the_folder_says(tmp_path):
    run = read(make_run(tmp_path / "a", seed=3, returns=(None, 10.0, 30.0), score=42.0))
    assert (run.env_id, run.algo, run.seed, run.status) == ("CartPole-v1", "ppo", 3, "finished")
    assert (run.steps, run.asked, run.seconds) == (3 * 4096, 1e6, 75.0)
    assert run.score == (42.0, 1.25, True)
    steps, values = run.curve("return")
    np.testing.assert_array_equal(steps, [8192, 12288])
    np.testing.assert_array_equal(values, [10, 30])


def test_without_an_evaluation_the_last_training_return_stands_for_it(tmp_path):
    score = read(make_run(tmp_path / "a", returns=(10.0, 30.0, None))).score
    assert score.value == 30.0
    assert not score.evaluated
    assert math.isnan(read(make_run(tmp_path / "b", returns=())).score.value)


def test_runs_are_found_at_any_depth_once(tmp_path):
    runs = [make_run(tmp_path / name) for name in ("b/deep/er", "a", "c")]
    make_run(tmp_path / ".trash" / "old")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text("{}")
    make_run(tmp_path / "a" / "inside-a-run")
    assert find([tmp_path]) == sorted(runs)
    assert find([runs[2], tmp_path / "b" / ".." / "c", tmp_path]) == [runs[2], runs[1], runs[0]]
    with pytest.raises(UsageError, match="there is no run or folder"):
        find([tmp_path / "nowhere"])


def test_a_line_that_is_still_being_written_is_left_out(tmp_path):
    folder = make_run(tmp_path / "a")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"generation": 2, "st')
    assert read(folder).steps == 2 * 4096


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


def test_values_of_the_wrong_kind_are_no_numbers(tmp_path, capsys):
    """A huge integer, a text, a date that is none: a row all the same."""
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


def test_a_name_cannot_command_the_terminal(tmp_path, capsys):
    make_run(tmp_path / "a", env_id="\x1b[31mred")
    assert "\x1b" not in listed(capsys, tmp_path)


def test_in_a_narrow_terminal_a_folder_has_a_line_of_its_own(tmp_path):
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
def test_a_reader_that_has_seen_enough_is_no_error_message(words, tmp_path):
    make_run(tmp_path / "a")
    command = [sys.executable, "-m", "capo", *words.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_listing_does_not_start_jax(tmp_path):
    code = (
        "import sys; from capo.cli import main; main(['list', '.']); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
