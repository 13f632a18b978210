"""Sinks of metrics, with and without a tracking service."""

import json
import sys

import pytest

from capo.cli.main import main
from capo.evaluation import Evaluation
from capo.runs.folder import RunFolder
from support.probes import small

ROW = {"steps": 64.0, "seconds": 2.0, "return": float("nan"), "kl": 0.5, "warmup": 0.0}


class Notes:
    """A sink that stores its calls."""

    def __init__(self):
        self.seen = []

    def log(self, row):
        self.seen.append(row)

    def close(self, status):
        self.seen.append(status)


@pytest.mark.parametrize("service", ["wandb", "trackio"])
def test_a_missing_service_is_one_line(service, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, service, None)
    assert main(["train", "CartPole-v1", "--track", service]) == 2
    said = capsys.readouterr().err
    assert f"pip install -e '.[{service}]'" in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_service_is_an_error(capsys):
    assert main(["train", "CartPole-v1", "--track", "mlflow"]) == 2
    assert "invalid choice 'mlflow' for argument '--track'" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["finished", "interrupted", "failed"])
def test_every_sink_gets_the_rows_and_the_final_status(status, tmp_path):
    run, notes = RunFolder(tmp_path / "run", small(), "none"), Notes()
    run._sinks.append(notes)
    run.log(ROW)
    result = Evaluation([1.0, 3.0], [5, 5]) if status == "finished" else None
    run.finish(status, result)
    row, *evaluation, said = notes.seen
    assert row == {**ROW, "return": None}
    assert said == status
    assert evaluation == ([{"steps": 64, "evaluation/return": 2.0}] if result else [])
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == status


def test_a_run_that_failed_before_its_first_row_says_so(tmp_path):
    RunFolder(tmp_path / "run", small(), "none").finish("failed")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "failed"
    assert not (tmp_path / "run" / "summary.png").exists()
