"""Which runs are seeds of one group, and the notes about those that differ."""

import json

import numpy as np

from capo.compare import compare
from capo.compare.curves import group_curve
from capo.compare.groups import group_runs
from capo.compare.line_styles import LIGHT_COLORS, line_styles
from capo.runs.reading import find, read
from support.run_folders import make_run


def records(folder):
    return [read(path) for path in find([folder])]


def labels(folder):
    return [(found.env_id, found.label) for found in group_runs(records(folder))[0]]


def notes(folder):
    return compare(records(folder)).notes


def test_runs_with_different_settings_are_not_pooled(tmp_path):
    make_run(tmp_path / "a", algo="capo", seed=1, experts=4)
    make_run(tmp_path / "b", algo="capo", seed=2, experts=8, hidden=(32, 16))
    make_run(tmp_path / "c", algo="capo", seed=3, experts=4, total_steps=2_000_000)
    make_run(tmp_path / "d", "Acrobot-v1", algo="capo", experts=8)
    make_run(tmp_path / "e", algo="ppo", seed=1)
    assert labels(tmp_path) == [
        ("Acrobot-v1", "capo (experts=8, hidden=64,64)"),
        ("CartPole-v1", "ppo"),
        ("CartPole-v1", "capo (experts=8, hidden=32,16)"),
        ("CartPole-v1", "capo (experts=4, hidden=64,64)"),
    ]


def test_seed_length_backend_workers_and_diagnostics_do_not_separate_runs(tmp_path):
    make_run(tmp_path / "a", seed=1, backend="gymnasium", diagnostics=0, workers=2)
    make_run(tmp_path / "b", seed=2, backend="envpool", diagnostics=3, total_steps=500_000)
    assert labels(tmp_path) == [("CartPole-v1", "ppo")]
    assert "CartPole-v1, ppo: runs of 500k and 1M steps are in one group" in notes(tmp_path)


def test_a_preset_is_named_instead_of_its_settings(tmp_path):
    settled = {"truncation": "terminate", "distill_init": "incumbent"}
    make_run(tmp_path / "a", seed=1, truncation="bootstrap", distill_init="average")
    make_run(tmp_path / "b", seed=2, preset="paper", **settled)
    assert [label for _, label in labels(tmp_path)] == [
        "ppo (preset=default)",
        "ppo (preset=paper)",
    ]
    make_run(tmp_path / "c", seed=3, preset="paper", truncation="bootstrap")
    assert ("CartPole-v1", "ppo (preset=paper, truncation=terminate, distill_init=incumbent)") in (
        labels(tmp_path)
    )


def test_a_setting_missing_in_an_older_run_has_its_default(tmp_path):
    folder = make_run(tmp_path / "a", seed=1)
    config = json.loads((folder / "config.json").read_text())
    del config["gamma"]
    (folder / "config.json").write_text(json.dumps(config))
    make_run(tmp_path / "b", seed=2)
    assert labels(tmp_path) == [("CartPole-v1", "ppo")]
    make_run(tmp_path / "c", seed=3, gamma=0.9)
    assert [label for _, label in labels(tmp_path)] == ["ppo (gamma=0.99)", "ppo (gamma=0.9)"]


def test_a_repeated_seed_counts_once(tmp_path):
    make_run(tmp_path / "a", seed=1, returns=(1, 2, 3), manifest={"status": "interrupted"})
    make_run(tmp_path / "b", seed=1, score=5.0)
    make_run(tmp_path / "c", seed=2, score=6.0)
    found = compare(records(tmp_path))
    assert sorted(found.results[0].scores) == [5.0, 6.0]
    where = "CartPole-v1, ppo: seed 1 has 2 runs"
    assert f"{where}; {tmp_path / 'b'} is used" in found.notes


def test_notes_name_everything_that_limits_the_comparison(tmp_path):
    make_run(tmp_path / "a", num_steps=512, experts=2)
    make_run(tmp_path / "b", algo="capo", manifest={"status": "interrupted"})
    make_run(tmp_path / "c", algo="capo", seed=2, returns=())
    assert notes(tmp_path)[:3] == [
        "CartPole-v1, capo: seed 1 is interrupted at 8.19k of 1M steps",
        "CartPole-v1: num_steps differs: ppo 512, capo 128",
        "CartPole-v1, capo: seed 2 has no return yet and is ignored",
    ]


def test_an_interval_without_width_is_explained(tmp_path):
    for seed in (1, 2, 3):
        make_run(tmp_path / f"a{seed}", seed=seed, score=1.0 * seed)
        make_run(tmp_path / f"b{seed}", algo="capo", seed=seed, score=10.0 * seed)
    found = compare(records(tmp_path))
    assert found.results[1].better == (1.0, 1.0, 1.0)
    assert found.notes[-1].startswith("An interval of zero width means only")


def test_mean_curves_end_with_the_shortest_seed(tmp_path):
    """Two seeds on the line y = steps, at different steps: their mean is that line."""
    for seed, (batch, rows) in enumerate(((100, 30), (70, 20)), 1):
        returns = [batch * (i + 1.0) for i in range(rows)]
        make_run(tmp_path / str(seed), seed=seed, returns=returns, batch=batch)
    ((found,), _) = group_runs(records(tmp_path))
    line = group_curve(found, "return", 0.95)
    assert line is not None
    assert (line.steps[0], line.steps[-1], line.seeds) == (100, 1400, 2)
    np.testing.assert_allclose(line.mean, line.steps)
    np.testing.assert_allclose([line.low, line.high], [line.steps] * 2)
    assert group_curve(found, "fisher/signal", 0.95) is None


def test_a_method_has_the_same_colour_in_all_comparisons():
    few = line_styles({"ppo": "ppo", "capo": "capo"})
    many = line_styles({"ppo": "ppo", "x": "x", "capo": "capo", "capo (experts=8)": "capo"})
    assert (few["ppo"], few["capo"]) == (many["ppo"], many["capo"])
    assert line_styles({"capo (experts=4)": "capo"})["capo (experts=4)"] == few["capo"]
    lots = line_styles({f"algo{i}": "" for i in range(2 * len(LIGHT_COLORS))})
    assert len(set(lots.values())) == 2 * len(LIGHT_COLORS)
