"""Run folders are found and read."""

import math

import numpy as np
import pytest

from capo.errors import UsageError
from capo.runs.reading import find, read
from support.run_folders import make_run


def test_a_record_has_the_values_of_the_folder(tmp_path):
    run = read(make_run(tmp_path / "a", seed=3, returns=(None, 10.0, 30.0), score=42.0))
    assert (run.env_id, run.algo, run.seed, run.status) == ("CartPole-v1", "ppo", 3, "finished")
    assert (run.steps, run.asked, run.seconds) == (3 * 4096, 1e6, 75.0)
    assert run.score == (42.0, 1.25, True)
    steps, values = run.curve("return")
    np.testing.assert_array_equal(steps, [8192, 12288])
    np.testing.assert_array_equal(values, [10, 30])


def test_without_an_evaluation_the_score_is_the_last_training_return(tmp_path):
    score = read(make_run(tmp_path / "a", returns=(10.0, 30.0, None))).score
    assert score.value == 30.0
    assert not score.evaluated
    assert math.isnan(read(make_run(tmp_path / "b", returns=())).score.value)


def test_runs_are_found_once_at_any_depth(tmp_path):
    runs = [make_run(tmp_path / name) for name in ("b/deep/er", "a", "c")]
    make_run(tmp_path / ".trash" / "old")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text("{}")
    make_run(tmp_path / "a" / "inside-a-run")
    assert find([tmp_path]) == sorted(runs)
    assert find([runs[2], tmp_path / "b" / ".." / "c", tmp_path]) == [runs[2], runs[1], runs[0]]
    with pytest.raises(UsageError, match="there is no run or folder"):
        find([tmp_path / "nowhere"])


def test_an_incomplete_last_line_is_ignored(tmp_path):
    folder = make_run(tmp_path / "a")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"generation": 2, "st')
    assert read(folder).steps == 2 * 4096
