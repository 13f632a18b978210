"""The command `capo reproduce`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from capo.cli.main import main
from capo.config import Config
from capo.paper.experiments import EXPERIMENTS
from capo.paper.tasks import of_tier
from capo.sweeps.selection import runs_of
from capo.sweeps.store import Store
from support.commands import capo

pytestmark = pytest.mark.xdist_group("reproduce")  # one worker, one set of runs
SMOKE = of_tier("smoke")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no experiment 'nothing'; there are main, curves"),
        ([], "name an experiment: main, curves"),
        (["main", "--envs", "Hopper-v5"], "Hopper-v5 is not one of the paper's tasks: Hopper-v4"),
        (["depth", "--envs", "Ant-v4"], "depth has only the tasks Hopper-v4"),
        (["main", "--algos", "capu"], "did you mean capo?"),
        (["depth", "--algos", "capo"], "depth has no run of capo"),
        (["main", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["main", "--jobs", "0"], "--jobs is 0; it must be at least 1"),
        (["main", "--steps", "lots"], "'lots' is not a number of steps"),
        (["main", "--steps", "100"], "--steps is 100; it must be at least 4096"),
    ],
)
def test_bad_arguments_are_one_line_and_nothing_is_written(
    words, said, tmp_path, capfd, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert said in told
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_left_alone(tmp_path, capfd):
    (tmp_path / "thesis.tex").touch()
    assert main(["reproduce", "main", "--out", str(tmp_path)]) == 2
    assert "has files that are not of capo reproduce" in capfd.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1


NARROWED = ["--algos", "ppo", "--seeds", "1"]
SMALL = ["reproduce", "attribution", "--tier", "smoke", *NARROWED, "--out", "out"]
WANTED = runs_of([EXPERIMENTS["attribution"]], SMOKE._replace(algos=("ppo",), seeds=1))
"""PPO, and PPO with the line search."""


@pytest.fixture(scope="module")
def smoked(tmp_path_factory):
    """Two runs, of which one fails because a file has the name of its folder."""
    folder = tmp_path_factory.mktemp("smoke")
    blocked = WANTED[-1]
    (folder / "out" / "runs").mkdir(parents=True)
    (folder / "out" / "runs" / blocked.name).touch()
    done = capo(*SMALL, cwd=folder)
    return folder, blocked, done


def test_a_failed_run_does_not_stop_the_others(smoked):
    folder, blocked, done = smoked
    assert done.returncode == 1, done.stderr
    names = {path.stem for path in (folder / "out" / "summaries").glob("*.json")}
    assert names == {run.name for run in WANTED} - {blocked.name}
    assert len(WANTED) == 2
    assert f"{blocked.name}: failed: " in done.stdout
    assert "2 runs, 0 of them done" in done.stdout
    page = (folder / "out" / "index.html").read_text()
    assert blocked.name in page
    assert "is not a folder" in page


@pytest.mark.slow
def test_finished_runs_are_not_repeated(smoked):
    folder, blocked, _ = smoked
    (folder / "out" / "runs" / blocked.name).unlink(missing_ok=True)
    before = {p: p.stat().st_mtime_ns for p in (folder / "out" / "summaries").iterdir()}
    done = capo(*SMALL, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 runs, 1 of them done" in done.stdout
    after = {p: p.stat().st_mtime_ns for p in (folder / "out" / "summaries").iterdir()}
    assert len(after) == 2
    assert before.items() <= after.items()
    again = capo(*SMALL, "--dry-run", cwd=folder)
    assert "2 runs, 2 of them done" in again.stdout


def test_runs_are_ordinary_run_folders(smoked):
    folder, _, _ = smoked
    store = Store(folder / "out")
    run = WANTED[0]
    config = json.loads((store.folder(run) / "config.json").read_text())
    assert Config.from_dict(config) == run.config.plain()
    found = store.results()[run.key]
    text = (store.folder(run) / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert found.totals["frames"] == rows[-1]["steps"] == 2560
    steps = len(rows) * run.config.epochs * run.config.minibatches
    assert found.totals["gradient_steps"] == steps
    assert found.curve["steps"] == [row["steps"] for row in rows if row["return"] is not None]
    looks = [row for row in rows if "fisher/total" in row]
    assert found.in_last_update("fisher/waste") == pytest.approx(
        looks[-1]["fisher/waste"], rel=1e-5
    )
    spread = [row["fisher/alignment"] for row in looks[:-1]]
    assert found.mean_over_run("fisher/alignment") == pytest.approx(np.mean(spread), rel=1e-5)


@pytest.mark.slow
def test_tables_can_be_written_again_from_the_summaries_alone(smoked, tmp_path):
    folder, _, _ = smoked
    (tmp_path / "out").mkdir()
    (folder / "out" / "summaries").rename(tmp_path / "out" / "summaries")
    try:
        done = capo(*SMALL, "--write-only", cwd=tmp_path)
    finally:
        (tmp_path / "out" / "summaries").rename(folder / "out" / "summaries")
    assert done.returncode == 0, done.stderr
    for name in ("attribution.md", "attribution.csv"):
        assert (tmp_path / "out" / name).read_text() == (folder / "out" / name).read_text()
    assert (tmp_path / "out" / "attribution.md").read_text().count("not run") > 5


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    return tmp_path_factory.mktemp("trials")


SINGLE = ["ppo", "ppo-kx", "best-of-k", "ppo-swa"]
PARTS = [
    ["main", "--algos", *SINGLE],
    ["main", "compute", "curves", "wall-clock"],
    ["depth", "fisher-epochs"],
    ["correlation", "waste", "carry"],
    ["width", "clip"],
    ["target-kl", "warmup"],
    ["attribution", "twins"],
    ["wider"],
    ["wider-best"],
    ["proof"],
    ["proof-humanoid"],
]


@pytest.mark.slow
@pytest.mark.parametrize("words", PARTS, ids=lambda words: words[0])
def test_the_smoke_tier_runs_all_experiments(words, trials):
    """No experiment fails, and each has its tables and its figure. The parts share their runs."""
    done = capo("reproduce", *words, "--tier", "smoke", "--out", "out", cwd=trials)
    assert done.returncode == 0, done.stdout + done.stderr
    there = {path.name for path in (trials / "out").iterdir()}
    for name in set(words) & set(EXPERIMENTS):
        assert {f"{name}.md", f"{name}.csv"} <= there
        assert f"{name}.png" in there or not EXPERIMENTS[name].figure
    if words == PARTS[-1]:
        assert {name for part in PARTS for name in part} >= set(EXPERIMENTS)
        wanted = {run.key for run in runs_of(list(EXPERIMENTS.values()), SMOKE)}
        assert set(Store(trials / "out").results()) == wanted


@pytest.mark.slow
def test_a_dry_run_estimates_the_time_and_writes_nothing(tmp_path):
    done = capo("reproduce", "depth", "--seeds", "1", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 runs, 0 of them done" in done.stdout
    assert "Hopper-v4 ppo 1M preset=corrected epochs=40" in done.stdout
    cores = len(os.sched_getaffinity(0))
    told = rf"about (\d+:)+\d\d for the other 7: {cores} at a time with 1 core each"
    assert re.search(told, done.stdout)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interrupted_reproduction_continues(tmp_path):
    """After SIGINT and a restart, the results equal those of an uninterrupted reproduction."""
    words = ["reproduce", "main", "--tier", "smoke", *NARROWED, "--steps", "48k", "--out", "out"]
    whole = capo(*words, cwd=_folder(tmp_path, "whole"))
    assert whole.returncode == 0, whole.stderr
    folder = _folder(tmp_path, "cut")
    process = subprocess.Popen([sys.executable, "-m", "capo", *words], cwd=folder)
    while _most_rows(folder) < 40:
        assert process.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    left = list((folder / "out" / "runs").glob("*/manifest.json"))
    assert {json.loads(path.read_text())["status"] for path in left} >= {"interrupted"}
    again = capo(*words, cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    found, wanted = (Store(tmp_path / name / "out").results() for name in ("cut", "whole"))
    assert {k: v.evaluation for k, v in found.items()} == {
        k: v.evaluation for k, v in wanted.items()
    }
    assert any(v.origin["resumed"] for v in found.values())


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def _most_rows(folder):
    """The largest number of rows of metrics in a run."""
    files = (folder / "out" / "runs").glob("*/metrics.jsonl")
    return max((file.read_text().count("\n") for file in files), default=0)
