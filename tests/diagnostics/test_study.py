"""Repeated updates from a model: depths, widths, and the command."""

import json

import jax
import numpy as np
import pytest

from capo import Config, UsageError, learn
from capo.cli.main import main
from capo.diagnostics.study import check_depths, study, table
from capo.diagnostics.trials import trials

CONFIG = Config(
    "CartPole-v1", algo="ppo", total_steps=256, num_envs=2, num_steps=64, minibatches=4,
    hidden=(8,), epochs=3, diagnostics=0,
)  # fmt: skip


pytestmark = pytest.mark.xdist_group("study")  # one worker, one model


@pytest.fixture(scope="module")
def model():
    return learn(CONFIG)


@pytest.fixture(scope="module")
def found(model):
    return list(trials(model, epochs=(1, 3, 4), experts=4, batches=2, seed=5))


def leaves(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_every_trial_starts_from_the_model_on_a_batch_of_its_own(model, found):
    for trial in found:
        np.testing.assert_array_equal(leaves(trial.before), leaves(model.policy))
        assert list(trial.after) == [1, 3, 4]
        assert [len(ends) for ends in trial.after.values()] == [4, 4, 4]
        assert len(trial.data.obs) == CONFIG.batch_size
    assert not np.array_equal(found[0].data.obs, found[1].data.obs)


def test_experts_differ_and_move_on_with_depth(found):
    for trial in found:
        start = leaves(trial.before)
        ends = {depth: [leaves(p) for p in after] for depth, after in trial.after.items()}
        assert not np.array_equal(ends[3][0], ends[3][1])
        # Adam's steps are bounded, so 4 epochs go further than 1 but not by another order.
        length = {depth: np.linalg.norm(e[0] - start) for depth, e in ends.items()}
        assert length[1] < length[4] < 8 * length[1]


def test_the_same_seed_repeats_a_trial(model, found):
    again = next(trials(model, epochs=(1,), experts=4, batches=1, seed=5))
    for a, b in zip(found[0].after[1], again.after[1], strict=True):
        np.testing.assert_array_equal(leaves(a), leaves(b))


def test_a_study_has_all_measures_at_each_depth(found):
    out = study(found, depth=3)
    assert [row["epochs"] for row in out["depths"]] == [1, 3, 4]
    for row in out["depths"]:
        np.testing.assert_allclose(row["signal"] + row["waste"], row["total"], rtol=1e-9)
        np.testing.assert_allclose(row["kl"], row["total"] / 2, rtol=0.3)
        assert 0 <= row["alignment"] <= 1
        assert row["signal_se"] > 0
    assert [row["experts"] for row in out["widths"]] == [1, 2, 4]
    ratios = [row["waste_ratio"] for row in out["widths"]]
    np.testing.assert_allclose(ratios[0], 1)
    assert 1 > ratios[1] > ratios[2] > 1 / 4
    np.testing.assert_allclose(ratios[2], out["depths"][1]["waste_ratio"])
    gains = [row["gain"] for row in out["ladder"]]
    assert gains == sorted(gains), "less damping gains more on the batch itself"
    plane = out["plane"]
    assert np.sum(np.square(plane["waste"])) > 0
    assert 0 < plane["share_of_waste"] <= 1
    json.dumps(out)


def test_updates_on_different_batches_share_less_waste(found):
    out = study(found, depth=3)
    apart = out["apart"]
    assert apart["rho_waste"] < out["depths"][1]["rho_waste"]
    # Two batches: the average keeps 1/2 + ρ/2, exactly so for wastes of equal size.
    np.testing.assert_allclose(apart["waste_ratio"], (1 + apart["rho_waste"]) / 2, atol=0.1)
    np.testing.assert_allclose(apart["predicted"], 1 / 4 + 3 / 4 * apart["rho_waste"])
    assert study(found[:1], depth=3)["apart"] == {}


def test_the_table_has_returns_where_they_are_known(found):
    text = table(study(found, depth=3), {3: 123.4})
    lines = text.splitlines()
    assert lines[0].split()[:5] == ["E", "return", "signal", "waste", "total"]
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "–"], ["3", "123"], ["4", "–"]]
    assert "2 batches × 4 shuffles" in text
    assert "between shuffles of a batch" in text
    assert "residual" in lines[-1]


def test_depths_are_sorted_and_the_nearest_is_chosen():
    assert check_depths((10, 2, 2), own=4) == ((2, 10), 2)
    with pytest.raises(UsageError, match="at least 1"):
        check_depths((0, 2), own=4)


def test_the_command_writes_numbers_and_a_picture_beside_the_model(model, tmp_path, capsys):
    model.save(tmp_path / "mine.safetensors")
    words = ["--epochs", "1,3", "--experts", "2", "--batches", "1"]
    assert main(["diagnose", str(tmp_path / "mine.safetensors"), *words]) == 0
    said = capsys.readouterr().out
    assert said.startswith("CartPole-v1, ppo, seed 1\n")
    assert said.splitlines()[-1].startswith("written: ")
    names = {"mine.safetensors", "mine-diagnose.json", "mine-diagnose.png"}
    assert {p.name for p in tmp_path.iterdir()} == names
    written = json.loads((tmp_path / "mine-diagnose.json").read_text())
    assert [row["epochs"] for row in written["depths"]] == [1, 3]
    assert (tmp_path / "mine-diagnose.png").read_bytes().startswith(b"\x89PNG")
