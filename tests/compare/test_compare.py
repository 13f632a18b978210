"""capo compare: the numbers, the notes and the files."""

import csv
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from capo.cli.main import main
from capo.compare import compare
from capo.compare.curves import group_curve
from capo.compare.groups import group_runs
from capo.errors import UsageError
from capo.runs.reading import find, read
from support.run_folders import make_run

FILES = {"compare.csv", "compare.png", "curves.csv", "report.html"}
PPO = (100.0, 200.0, 300.0, 400.0, 500.0)
CAPO = (150.0, 300.0, 300.0, 600.0, 700.0)


def write_runs(folder, env_id="CartPole-v1"):
    for seed, (ppo, capo) in enumerate(zip(PPO, CAPO, strict=True), 1):
        make_run(folder / f"{env_id}-ppo-{seed}", env_id, "ppo", seed, (10, ppo), score=ppo)
        make_run(folder / f"{env_id}-capo-{seed}", env_id, "capo", seed, (10, capo), score=capo)
    return folder


def records(folder):
    return [read(path) for path in find([folder])]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_runs(tmp_path / "runs")


def test_the_table_has_the_values_computed_by_hand(runs, capsys):
    assert main(["compare", "runs"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "CartPole-v1, against ppo\n" in out
    (ppo,) = re.findall(r"^ +ppo .*", out, re.MULTILINE)
    (capo,) = re.findall(r"^ +capo .*", out, re.MULTILINE)
    assert ppo.split()[:5] == ["ppo", "5", "300.0", "±", "70.7"]
    assert re.search(r" 300\.0 \[1\d\d\.0, 4\d\d\.0\]  –$", ppo)
    # Of 25 pairs, 150 wins one, each 300 wins two and ties one, 600 and 700 win five each.
    assert capo.split()[8] == f"{(1 + 2 * 2.5 + 2 * 5) / 25:.2f}"
    assert out.endswith("written: compare/report.html, compare.png, compare.csv, curves.csv\n")
    assert {path.name for path in (runs.parent / "compare").iterdir()} == FILES


def test_the_csv_files(runs):
    assert main(["compare", "runs", "--confidence", "0.5"]) == 0
    with (runs.parent / "compare" / "compare.csv").open() as file:
        ppo, capo = csv.DictReader(file)
    assert (ppo["label"], ppo["seeds"], ppo["mean"], ppo["better"]) == ("ppo", "5", "300.0", "")
    assert float(ppo["standard_error"]) == pytest.approx(np.std(PPO, ddof=1) / 5**0.5)
    assert float(capo["iqm"]) == pytest.approx((0.75 * 300 + 300 + 0.75 * 600) / 2.5)
    assert (capo["reference"], capo["confidence"]) == ("ppo", "0.5")
    assert float(capo["better_low"]) < float(capo["better"]) < float(capo["better_high"])
    with (runs.parent / "compare" / "curves.csv").open() as file:
        points = list(csv.DictReader(file))
    assert [p["steps"] for p in points] == ["4096", "8192"] * 2
    assert float(points[1]["mean"]) == 300.0
    assert float(points[1]["low"]) < 300.0 < float(points[1]["high"])


def test_several_environments_have_a_mean_probability(runs, capsys):
    write_runs(runs, "Acrobot-v1")
    assert main(["compare", "runs"]) == 0
    out = capsys.readouterr().out
    each = [float(x) for x in re.findall(r"(\d\.\d\d) \[", out)]
    assert "\nmean over environments, against ppo\n  capo " in out
    assert each[2] == each[0] == each[1]
    found = compare(records(runs))
    (over,), (one, *_) = found.overall, (r for r in found.results if r.reference)
    assert over.environments == 2
    # Twice as many strata of the same spread: the mean over them is surer than one of them.
    assert over.better.high - over.better.low < one.better.high - one.better.low


def test_one_seed_has_no_interval(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "a", algo="ppo", score=5.0)
    make_run(tmp_path / "b", algo="capo", score=6.0)
    assert main(["compare", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^ +ppo +1 +5\.00 ± – +– +–$", out, re.MULTILINE)
    assert re.search(r"^ +capo +1 +6\.00 ± – +– +–$", out, re.MULTILINE)
    assert "note: Some groups have fewer than 5 seeds" in out
    assert "nan" not in (tmp_path / "compare" / "compare.csv").read_text().lower()
    body = (
        (tmp_path / "compare" / "report.html").read_text().split("<body>")[1].split("<script>")[0]
    )
    assert "nan" not in body.lower()


def test_a_last_training_return_is_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "a", seed=1, score=5.0)
    make_run(tmp_path / "runs" / "b", seed=2, returns=(1.0, 7.0))
    assert main(["compare", "runs"]) == 0
    out = capsys.readouterr().out
    assert "6.00 ± 1.00*" in out
    assert "* includes the last training return" in out


def test_seeds_that_share_no_steps_have_no_curve(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "a", seed=1, returns=(1, 2))
    make_run(tmp_path / "runs" / "b", seed=2, returns=(None, None, 3, 4))
    ((found,), _) = group_runs(records(tmp_path))
    assert group_curve(found, "return", 0.95) is None
    assert main(["compare", "runs"]) == 0
    assert "Learning curves" not in (tmp_path / "compare" / "report.html").read_text()


def test_an_earlier_comparison_is_replaced_and_nothing_else(runs, capsys):
    assert main(["compare", "runs"]) == 0
    assert main(["compare", "runs"]) == 0
    capsys.readouterr()
    for out, why in (
        ("runs", "has files that are not of capo compare"),
        ("runs/CartPole-v1-ppo-1/eval.json", "not a"),
    ):
        before = sorted(runs.rglob("*"))
        assert main(["compare", "runs", "--out", out]) == 2
        assert why in capsys.readouterr().err
        assert sorted(runs.rglob("*")) == before


def test_broken_folders_are_left_out_with_a_note(runs, capsys):
    (make_run(runs / "broken") / "metrics.jsonl").write_text('{"steps": 1}\nx\n')
    (runs / "empty").mkdir()
    assert main(["compare", "runs", "runs/empty"]) == 0
    out = capsys.readouterr().out
    assert "note: ignored: runs/broken/metrics.jsonl is damaged: line 2" in out
    assert "note: there is no run in runs/empty" in out


def test_invalid_values_do_not_stop_the_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, value in enumerate(("\ud800", 10**400, [{}], "0001-01-01T00:00:00", float("inf"))):
        changed = {"status": value, "started": value, "command": value, "versions": value}
        changed["wall_seconds"] = value
        folder = make_run(
            tmp_path / "runs" / str(seed), seed=seed, manifest=changed, returns=(1, 2)
        )
        config = json.loads((folder / "config.json").read_text())
        config |= {"gamma": value, "total_steps": value}
        (folder / "config.json").write_text(json.dumps(config))
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"steps": 9000, "return": value, "fisher/signal": value}) + "\n")
    assert main(["compare", "runs"]) == 0
    assert capsys.readouterr().out.count("2.00 ± –*") == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare", "name run folders, or a folder that contains them: capo compare runs"),
        ("compare nowhere", "there is no run or folder nowhere"),
        ("compare .", "there is no run in .; a run folder contains config.json and metrics.jsonl"),
        ("compare . --confidence 95", "--confidence is 95; it must be between 0 and 1"),
        ("compare . --confidence nan", "--confidence is nan; it must be between 0 and 1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"capo: {message}\n"
    assert list(tmp_path.iterdir()) == []


def test_runs_without_an_episode_cannot_be_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "a", returns=(None, None))
    assert main(["compare", "runs"]) == 2
    assert "no episode has ended" in capsys.readouterr().err
    assert not (tmp_path / "compare").exists()


def test_the_page_is_complete_and_self_contained(runs):
    gif = runs / "CartPole-v1-capo-2" / "play.gif"
    gif.write_bytes(b"GIF89a" + bytes(100))
    (runs / "CartPole-v1-ppo-1" / "play.gif").write_bytes(b"<svg onload=alert(1)>")
    (runs / "CartPole-v1-ppo-2" / "play.gif").write_bytes(b"GIF89a" + bytes(3_000_001))
    assert main(["compare", "runs"]) == 0
    page = (runs.parent / "compare" / "report.html").read_text()
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
    assert not re.search(r"https?://|url\(|@import", page)
    assert page.count("data:image/gif;base64,R0lGODlh") == page.count("<img") == 1
    for seed in range(1, 6):
        assert f"capo train CartPole-v1 --algo capo --seed {seed}" in page
    assert '<pre class="alone">capo compare runs</pre>' in page
    assert "default-src 'none'; img-src data:;" in html.unescape(page)


def test_the_same_runs_give_the_same_page(runs):
    pages = []
    for _ in range(2):
        assert main(["compare", "runs"]) == 0
        pages.append((runs.parent / "compare" / "report.html").read_bytes())
    assert pages[0] == pages[1]


TRAP = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7 * 7 }}{% raw %}'


def trapped(folder, trap, **settings):
    """A run with markup in all its texts: names, manifest and settings."""
    versions = {"versions": {trap: trap}, "started": trap, "machine": trap, "backend": trap}
    manifest = {"command": trap, "status": trap, **versions}
    run = make_run(folder, trap, trap, manifest=manifest)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **settings}))
    return run


def test_texts_of_a_run_folder_are_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trapped(tmp_path / "runs" / "a<b>&", TRAP)
    trapped(tmp_path / "runs" / "<img src=x onerror=alert(3)>", TRAP, **{TRAP: TRAP})
    assert main(["compare", "runs"]) == 0
    page = (tmp_path / "compare" / "report.html").read_text()
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "{{ 7 * 7 }}{% raw %}" in page
    assert "a&lt;b&gt;&amp;" in page
    assert "&lt;img src=x onerror=alert(3)&gt;" in page
    assert f"{TRAP}={TRAP}" in html.unescape(page), "a setting that tells groups apart"


@pytest.mark.parametrize(
    "trap", ["\x1b[2J\x1b]0;owned\x07", "a\rb\nc\u202ed", "\ud800", "$\\frac{"]
)
def test_control_characters_of_a_run_folder_are_removed(trap, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trapped(tmp_path / "runs" / "one", trap)
    trapped(tmp_path / "runs" / "two", trap, **{trap: trap})
    (make_run(tmp_path / "runs" / "broken\x1b[2J") / "config.json").write_text("{")
    for words in (["compare", "runs"], ["list", "runs"], ["list", "runs", "--json"]):
        assert main(words) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert all(line.isprintable() for line in said.out.split("\n")), said.out


def test_the_code_on_the_page_gives_its_table(capsys):
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "compare.md", "exec"), {})
    said = [f"{float(x):.3g}" for x in re.findall(r"\d+\.\d+", capsys.readouterr().out)]
    assert said == ["471", "245", "500", "0.56", "0.18", "0.9"]
    assert "471.5 [244.6, 500.0]   0.56 [0.18, 0.90]" in text


def test_reading_one_broken_run_is_an_error(tmp_path):
    (make_run(tmp_path / "a") / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="has no env_id"):
        read(tmp_path / "a")
