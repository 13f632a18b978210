"""The paper's experiments: their runs, their numbers, and the command that does them."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from capo.cli import main, parse
from capo.config import Config, UsageError
from capo.methods import resolve
from capo.paper import summaries
from capo.paper.design import Published, Variant
from capo.paper.effects import effects
from capo.paper.estimate import Speed
from capo.paper.experiments import ANT, CHEETAH, EXPERIMENTS, HOPPER, HUMANOID
from capo.paper.launch import places
from capo.paper.measures import RETURN
from capo.paper.published import numbers
from capo.paper.selection import Selection, cell_of, run_of, runs_of
from capo.paper.store import Store
from capo.paper.tables import (
    AGREES,
    HIGHER,
    LOWER,
    Entry,
    progress,
    table,
    to_csv,
    to_html,
    to_markdown,
    to_text,
)
from capo.records import broken
from papers import add, summary

pytestmark = pytest.mark.xdist_group("reproduce")  # one worker, one set of runs
FULL, SMOKE = Selection(), Selection.of_tier("smoke")


def variants(name, **changes):
    (found,) = [v for v in EXPERIMENTS[name].variants if dict(v.changes) == changes]
    return found


def test_what_is_no_change_is_the_same_run():
    plain = run_of(HOPPER, Variant("capo"), 1, FULL)
    assert plain.name == "Hopper-v4__capo__1M__1"
    for field, value in (("experts", 4), ("warmup", 0.1), ("carry", "incumbent"), ("clip", 0.2)):
        assert run_of(HOPPER, Variant("capo", "", ((field, value),)), 1, FULL) == plain
    assert run_of(HUMANOID, Variant("ppo"), 2, FULL).name == "Humanoid-v4__ppo__4M__2"
    other = run_of(HOPPER, Variant("capo", "", (("experts", 8),)), 1, FULL)
    assert other.name == "Hopper-v4__capo__1M__experts=8__1"
    assert run_of(HOPPER, Variant("capo"), 1, Selection(preset="paper")).name == (
        "Hopper-v4__capo__1M__preset=paper__1"
    )


def test_experiments_share_runs():
    """PPO at its defaults is run once, whichever tables it stands in."""
    everything = runs_of(list(EXPERIMENTS), FULL)
    names = [run.name for run in everything]
    assert len(set(names)) == len(names)
    alone = sum(len(runs_of([name], FULL)) for name in EXPERIMENTS)
    assert len(names) < alone / 2
    assert [int(name.rpartition("__")[2]) for name in names] == sorted(
        int(name.rpartition("__")[2]) for name in names
    ), "the first seed of everything comes first"
    equal = {}
    for run in everything:
        equal.setdefault(run.config, []).append(run.name)
    assert all(len(found) == 1 for found in equal.values()), "equal configurations, two names"


def test_a_trial_is_small_and_goes_through_everything():
    names = list(EXPERIMENTS)
    trial = runs_of(names, SMOKE)
    assert len(trial) < 20, "all of it is to end in two minutes"
    assert {run.config.algo for run in trial} == {run.config.algo for run in runs_of(names, FULL)}
    for name, experiment in EXPERIMENTS.items():
        found = {run.name for run in runs_of([name], SMOKE)}
        assert any(
            "__2.56k__minibatches=2__num_envs=2__num_steps=128__hidden=8__" in x for x in found
        )
        swept = any(variant.changes for variant in experiment.variants)
        assert len(found) > len({run.split("__")[1] for run in found}) or not swept
    asked = SMOKE.narrowed(envs=(HOPPER, ANT))
    assert {run.config.env_id for run in runs_of(["main"], asked)} == {HOPPER, ANT}


def test_the_words_of_a_run_give_its_configuration():
    for chosen in (FULL, SMOKE, Selection(preset="paper", steps=123_456)):
        for run in runs_of(["main", "depth", "carry", "attribution", "target-kl"], chosen)[::29]:
            call = parse(["train", *run.words])
            assert resolve(call.keywords["config"]) == run.config, run.name


def test_a_cell_holds_its_runs_whatever_their_length():
    cell = cell_of(HOPPER, Variant("ppo"), FULL)
    assert cell.holds("Hopper-v4__ppo__1M__1")
    assert cell.holds("Hopper-v4__ppo__200k__12")
    assert not cell.holds("Hopper-v4__ppo__1M__epochs=40__1")
    assert not cell.holds("Hopper-v4__ppo-kx__1M__1")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_number_of_the_paper_has_its_cell(name):
    """As many as the file has, counted in another way."""
    experiment, found = EXPERIMENTS[name], numbers()
    count = 0
    for layout in experiment.layouts:
        made = table(experiment, layout, FULL, {})
        count += sum(entry.published is not None for entry in made.entries.values())
    swept = {"carry": 3 * 2 * 4, "width": 3 * 2 * 4, "clip": 3 * 3 * 4}
    swept |= {"target-kl": 3 * 3 * 4, "warmup": 3 * 2 * 4, "main": 7 * 6}
    swept |= {"depth": 7 * 6, "fisher-epochs": 3, "correlation": 5 * 4, "waste": 5 * 2 * 3}
    swept |= {"wall-clock": 6 * 7, "compute": 6 * 3}
    assert count == swept.get(name, 0)
    if name in ("carry", "clip", "warmup"):
        rows = found[name]["rows"].values()
        assert count == sum(len(v) for row in rows for v in row.values())


def test_published_numbers_stand_where_the_paper_has_them():
    def cell(name, env, variant, index=0):
        layout = EXPERIMENTS[name].layouts[index]
        return layout.published(env, variant, layout.measures[0])

    assert cell("main", HOPPER, Variant("capo-avg")) == (3193, 93)
    assert cell("depth", HOPPER, variants("depth", epochs=10)) == (3210, 193)
    assert cell("clip", ANT, variants_of("clip", "ppo", clip=0.2)) == (316, 47)
    assert cell("target-kl", ANT, variants_of("target-kl", "ppo", target_kl=0.0)) == (295, 78)
    assert cell("width", CHEETAH, variants_of("width", "capo", experts=16)) == (3556, 965)
    assert cell("wall-clock", HOPPER, Variant("ppo")) == (1027, 8)
    assert cell("wall-clock", HOPPER, Variant("capo"), 1)[0] == 1.42
    assert cell("correlation", HUMANOID, Variant("capo-avg"))[0] == 1.0
    assert cell("waste", ANT, Variant("capo"))[0] == 0.069


def variants_of(name, algo, **changes):
    found = EXPERIMENTS[name].variants
    return next(v for v in found if v.algo == algo and dict(v.changes) == changes)


def test_the_difference_is_in_combined_standard_errors():
    entry = Entry((1.0, 3.0, 5.0), Published(10.0, 1.5), 1)
    error = 2 / math.sqrt(3)
    assert math.isclose(entry.difference, (3 - 10) / math.hypot(error, 1.5))
    assert entry.verdict == LOWER
    assert entry._replace(published=Published(5.5, 1.5)).verdict == AGREES
    assert entry._replace(published=Published(0.0)).verdict == HIGHER, "no error stated: ours"
    assert entry.ours == "3.0 ± 1.2 (3)"
    alone = Entry((3.0,), Published(10.0, 1.5), 1)
    assert alone.verdict == "", "one seed has no error"
    assert Entry((), Published(10.0, 1.5), 1).ours == "not run"


def test_a_table_from_partial_data():
    main_experiment = EXPERIMENTS["main"]
    found = add({}, HOPPER, Variant("ppo"), [2700, 2900])
    add(found, HUMANOID, Variant("ppo"), [500], Selection(steps=1_000_000))
    made = table(main_experiment, main_experiment.layouts[0], FULL, found)
    assert made.entries[("`ppo`",), HOPPER].ours == "2800 ± 100 (2)"
    assert made.entries[("`ppo`",), HOPPER].verdict == AGREES
    shorter = made.entries[("`ppo`",), HUMANOID]
    assert (shorter.ours, shorter.verdict) == ("500 (1)", "")
    assert shorter.gap == "1M steps, paper 4M"
    assert made.entries[("`capo`",), HOPPER].ours == "not run"
    assert progress(main_experiment, FULL, found) == (2, 7 * 6 * 8, 1)
    assert str(progress(main_experiment, FULL, found)) == "2 of 336 runs and 1 more"
    text = to_markdown(made)
    assert "| `ppo` | 2800 ± 100 (2)<br>*2711 ± 268*<br>≈ +0.3 σ |" in text
    assert text.count("not run") == 40
    assert to_text(made) == [
        "Final return",
        "                            ours       paper",
        "ppo  Hopper-v4    2800 ± 100 (2)  2711 ± 268  ≈ +0.3 σ",
        "ppo  Humanoid-v4         500 (1)    739 ± 39  1M steps, paper 4M",
        "not run: 40 of 42",
    ]
    trained = table(EXPERIMENTS["curves"], EXPERIMENTS["curves"].layouts[0], FULL, found)
    assert "| 500 (1)<br>1M steps, paper 4M |" in to_markdown(trained), "said without a number, too"
    assert '<span class="gap">1M steps, paper 4M</span>' in to_html(trained)
    lines = to_csv([made]).decode().splitlines()
    assert len(lines) == 1 + 42
    assert "Final return,ppo,Hopper-v4,2,2800,100,2711,268,0.311136,agrees" in lines


def test_relative_measures_are_over_ppos_mean():
    clock = EXPERIMENTS["wall-clock"]
    found = {
        run.name: summary(run, seconds=seconds)
        for algo, seed, seconds in (("ppo", 1, 90.0), ("ppo", 2, 110.0), ("capo", 1, 150.0))
        for run in [run_of(HOPPER, Variant(algo), seed, FULL)]
    }
    made = table(clock, clock.layouts[1], FULL, found)
    assert made.entries[("`capo`",), HOPPER].values == (1.5,)
    assert table(clock, clock.layouts[1], FULL, {}).entries[("`capo`",), HOPPER].values == ()


def test_gradient_steps_are_counted_with_the_experts():
    """In the warmup there is one expert, after it K; TRPO takes one natural step each."""
    rows = [{"warmup": 1, "epochs_run": 10}, {"warmup": 0, "epochs_run": 10}]
    rows += [{"warmup": 0, "epochs_run": 2.5}]
    wide = Config(HOPPER, algo="capo", experts=4)
    assert summaries.gradient_steps(rows, wide) == 32 * (10 + 4 * 10 + 4 * 2.5)
    natural = [{"warmup": 0, "epochs_run": 1}] * 3
    assert summaries.gradient_steps(natural, Config(HOPPER, algo="trpo")) == 3
    by_trpo = wide.replace(base_optimizer="trpo")
    assert summaries.gradient_steps(rows, by_trpo) == 32 * 10 + 4 + 4


def test_what_breaks_theorem_1_is_counted_with_the_reason():
    """An expert alone has no theorem; a step that was shortened gains less than the pool."""
    keys = ("consensus/q_violations", "consensus/violations", "step_scale")
    found = [(0.0, 0.0, 1.0), (0.0, 1.0, 0.64), (0.0, 2.0, 1.0), (1.0, 1.0, 0.8)]
    rows = [{"warmup": 1.0}, *(dict(zip(keys, row, strict=True)) for row in found)]
    assert broken(rows) == (4, 1, 3, 2)
    without = {key: rows[2][key] for key in keys[:2]}
    assert broken([without]) == (1, 0, 1, 0), "a method without the line search"
    assert broken([]) == (0, 0, 0, 0)


def test_what_a_run_is_expected_to_take():
    speed = Speed(start=10.0, collect=0.5, update=0.1)
    plain = Config(HOPPER, algo="ppo")
    generations = 1_000_000 // 4096
    assert math.isclose(speed.of(plain), 10 + generations * 0.6)
    wide = plain.replace(algo="capo")
    assert math.isclose(speed.of(wide), 10 + generations * (0.5 + 0.1 * 50 / 20))
    assert speed.of(plain.replace(epochs=40)) == pytest.approx(10 + generations * 0.9)


def test_cores_are_shared_out():
    cores = os.sched_getaffinity(0)
    assert set().union(*places(None)) == cores
    assert len(places(None)) == len(cores)
    assert places(1) == [frozenset(cores)]
    with pytest.raises(UsageError, match=r"--jobs is \d+; this process has"):
        places(len(cores) + 1)


def test_a_summary_can_be_kept(tmp_path):
    made = summary(run_of(HOPPER, Variant("ppo"), 1, FULL), 12.5)
    made = made._replace(looks=[{"steps": 1.0, "fisher/total": 0.5}], totals={"seconds": math.nan})
    summaries.save(tmp_path / "a.json", made)
    kept = summaries.load(tmp_path / "a.json")
    assert kept._replace(config={}, totals={}) == made._replace(config={}, totals={})
    assert Config.from_dict(kept.config) == Config.from_dict(made.config)
    assert kept.totals == {"seconds": None}
    for text in ("", "{}", "[1]", (tmp_path / "a.json").read_text().replace("12.5", "null")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(UsageError, match=r"a\.json is damaged; remove it"):
            summaries.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no experiment 'nothing'; there are main, curves"),
        ([], "name an experiment: main, curves"),
        (["main", "--envs", "Hopper-v5"], "Hopper-v5 is not one of the paper's tasks: Hopper-v4"),
        (["depth", "--envs", "Ant-v4"], "depth is about Hopper-v4"),
        (["main", "--algos", "capu"], "did you mean capo?"),
        (["depth", "--algos", "capo"], "depth has no run of capo"),
        (["main", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["main", "--jobs", "0"], "--jobs is 0; it must be at least 1"),
        (["main", "--steps", "lots"], "'lots' is not a number of steps"),
        (["main", "--steps", "100"], "--steps is 100; it must be at least 4096"),
    ],
)
def test_bad_words_are_one_line_and_nothing_is_written(words, said, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert said in told
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_left_alone(tmp_path, capfd):
    (tmp_path / "thesis.tex").touch()
    assert main(["reproduce", "main", "--out", str(tmp_path)]) == 2
    assert "holds something other than a reproduction" in capfd.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1


NARROWED = ["--algos", "ppo", "--seeds", "1"]
SMALL = ["reproduce", "attribution", "--tier", "smoke", *NARROWED, "--out", "out"]
WANTED = runs_of(["attribution"], SMOKE._replace(algos=("ppo",), seeds=1))
"""PPO, and PPO with the line search."""


@pytest.fixture(scope="module")
def smoked(tmp_path_factory):
    """One run cannot begin, because a file stands in its way; the other is done."""
    folder = tmp_path_factory.mktemp("smoke")
    blocked = WANTED[-1]
    (folder / "out" / "runs").mkdir(parents=True)
    (folder / "out" / "runs" / blocked.name).touch()
    done = capo(*SMALL, cwd=folder)
    return folder, blocked, done


def capo(*words, cwd):
    command = [sys.executable, "-m", "capo", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


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
def test_what_is_done_is_not_done_again(smoked):
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
    settled = {"network": "mlp", "activation": "tanh"}
    assert Config.from_dict(config) == run.config.replace(**settled)
    found = store.results()[run.name]
    text = (store.folder(run) / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert found.totals["frames"] == rows[-1]["steps"] == 2560
    steps = len(rows) * run.config.epochs * run.config.minibatches
    assert found.totals["gradient_steps"] == steps
    assert found.curve["steps"] == [row["steps"] for row in rows if row["return"] is not None]
    looks = [row for row in rows if "fisher/total" in row]
    assert found.last("fisher/waste") == pytest.approx(looks[-1]["fisher/waste"], rel=1e-5)
    spread = [row["fisher/alignment"] for row in looks[:-1]]
    assert found.spaced("fisher/alignment") == pytest.approx(np.mean(spread), rel=1e-5)


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


@pytest.mark.slow
def test_everything_can_be_tried(tmp_path):
    """All experiments, tiny: none fails, and each has its tables and its figure."""
    done = capo("reproduce", "all", "--tier", "smoke", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(Store(tmp_path / "out").results()) == {
        r.name for r in runs_of([*EXPERIMENTS], SMOKE)
    }
    there = {path.name for path in (tmp_path / "out").iterdir()}
    for name, experiment in EXPERIMENTS.items():
        assert {f"{name}.md", f"{name}.csv"} <= there
        assert f"{name}.png" in there or not experiment.figure


@pytest.mark.slow
def test_a_dry_run_says_how_long_it_would_take_and_writes_nothing(tmp_path):
    done = capo("reproduce", "depth", "--seeds", "1", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 runs, 0 of them done" in done.stdout
    assert "Hopper-v4 ppo 1M epochs=40" in done.stdout
    cores = len(os.sched_getaffinity(0))
    told = rf"about (\d+:)+\d\d for the other 7: {cores} at a time with 1 core each"
    assert re.search(told, done.stdout)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_interrupted_and_started_again_it_goes_on(tmp_path):
    """Stopped by SIGINT in the middle of its runs; what they come to is what they would have."""
    words = [*SMALL, "--steps", "256k"]
    whole = capo(*words, cwd=_folder(tmp_path, "whole"))
    assert whole.returncode == 0, whole.stderr
    folder = _folder(tmp_path, "cut")
    process = subprocess.Popen([sys.executable, "-m", "capo", *words], cwd=folder)
    _wait_for(folder, lambda text: text.count("\n") >= 200)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
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


def _wait_for(folder, ready):
    for _ in range(1200):
        files = list((folder / "out" / "runs").glob("*/metrics.jsonl"))
        if any(ready(file.read_text()) for file in files):
            return
        time.sleep(0.05)
    raise AssertionError("nothing was trained")


def test_each_return_is_the_evaluations():
    made = summary(run_of(HOPPER, Variant("ppo"), 1, FULL), 12.5)
    assert RETURN.of(made) == 12.5


def test_a_change_is_judged_seed_by_seed():
    """A seed that only one of the two has does not count, nor do runs of another length."""
    found = add({}, HOPPER, Variant("ppo"), [1000, 3000, 2000])
    add(found, HOPPER, Variant("capo"), [1100, 3300])
    add(found, HUMANOID, Variant("ppo"), [500])
    add(found, HUMANOID, Variant("capo"), [900], Selection(steps=1_000_000))
    made = effects(EXPERIMENTS["main"], FULL, found)
    row = ("`capo` − `ppo`",)
    entry = made.entries[row, HOPPER]
    assert entry.values == (100, 300)
    assert (entry.ours, entry.gap) == ("200 ± 100 (2)", "≈ +1.3 σ")
    assert entry.published.mean == 2397 - 2711
    assert entry.published.error == pytest.approx(math.hypot(286, 268))
    assert made.entries[row, HUMANOID].ours == "not run"
    assert '<td class="name"><code>capo</code> − <code>ppo</code></td>' in to_html(made)
    assert effects(EXPERIMENTS["main"], Selection(algos=("capo",)), found) is None
    assert effects(EXPERIMENTS["depth"], FULL, found) is None


def test_the_two_of_a_contrast_differ_in_one_thing():
    for contrast in (*EXPERIMENTS["attribution"].contrasts, *EXPERIMENTS["carry"].contrasts):
        after, before = (dict(each.changes) for each in (contrast.after, contrast.before))
        changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
        several = contrast.after.algo != contrast.before.algo
        # capo has the line search on, so that pooling alone is capo without it.
        if contrast.name.startswith("pooling"):
            assert (after, before) == ({"line_search": "off"}, {})
        else:
            assert len(changed) + several == 1
