"""The figures, from made-up runs: what is drawn, and where."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from capo.paper.depth_figures import depth_curve, depth_figure, fisher_epochs_figure
from capo.paper.experiments import EXPERIMENTS
from capo.paper.reports import FIGURES
from capo.paper.tasks import CHEETAH, HOPPER, HUMANOID, PAPER, WALKER
from capo.statistics import CURVE_RESAMPLES, bootstrap, mean, mean_curve
from capo.sweeps import figures
from capo.sweeps.design import Variant
from capo.sweeps.results import Results
from capo.sweeps.selection import planned_run
from support.paper_runs import add, depth_runs, invented, summary

FULL, TWO = PAPER, PAPER._replace(seeds=2)


def curve(steps, returns):
    return {"steps": [float(x) for x in steps], "return": [float(x) for x in returns]}


def test_the_curve_is_the_mean_and_the_band_a_bootstrap_interval():
    results = {}
    for seed, slope in enumerate((1.0, 2.0, 6.0), 1):
        run = planned_run(HOPPER, Variant("ppo"), seed, FULL)
        steps = np.linspace(0, 1e6, 10 + seed)  # no two seeds have the same steps
        results[run.key] = summary(run, curve=curve(steps, slope * steps))
    drawn = figures.curves_figure(EXPERIMENTS["curves"], Results(results, FULL))
    assert drawn is not None
    (axes,) = [axes for axes in drawn.axes if axes.get_visible()]
    (line,) = axes.lines
    x, y = np.asarray(line.get_data(), float)
    np.testing.assert_allclose(y, 3.0 * 1e6 * x, rtol=1e-9)
    assert x.max() == 1.0
    assert to_hex(line.get_color()) == figures.color_of("ppo")
    corners = axes.collections[0].get_paths()[0].vertices
    ends = bootstrap(mean, 1e6 * np.array([1.0, 2.0, 6.0]), resamples=CURVE_RESAMPLES)
    found = [pick(corners[corners[:, 0] == 1.0][:, 1]) for pick in (np.min, np.max)]
    np.testing.assert_allclose(found, ends, rtol=1e-9)
    assert found == pytest.approx([1e6, 6e6]), "the mean of three is drawn as far as one of them"
    assert axes.get_title() == "Hopper-v4, 3 seeds"
    assert "Ant-v4" in drawn.get_supxlabel()


def test_a_panel_names_runs_of_another_length():
    results = add({}, HUMANOID, Variant("ppo"), [500], selection=PAPER._replace(steps=1_000_000))
    (axes,) = figures.curves_figure(EXPERIMENTS["curves"], Results(results, FULL)).axes
    assert axes.get_title() == "Humanoid-v4, 1 seed, 1M steps, paper 4M"


def test_one_seed_has_no_band_and_no_shared_steps_no_line():
    run, other = (planned_run(HOPPER, Variant("capo"), seed, FULL) for seed in (1, 2))
    one = {run.key: summary(run)}
    (axes,) = figures.curves_figure(EXPERIMENTS["curves"], Results(one, FULL)).axes
    assert (len(axes.lines), len(axes.collections)) == (1, 0)
    early = summary(run, curve=curve([1, 2], [1, 2]))
    late = summary(other, curve=curve([3, 4], [1, 2]))
    empty = summary(run, curve=curve([], []))
    half = summary(other, curve={"steps": [1.0], "return": [None]})
    assert mean_curve([early.learning, late.learning], 9) is None
    assert mean_curve([empty.learning], 9) is None
    held = mean_curve([early.learning, half.learning], 9)
    assert held is not None
    assert held.seeds == 1


@pytest.mark.parametrize("name", [n for n, each in EXPERIMENTS.items() if each.figure])
def test_figures_are_none_without_runs_and_drawn_with_few(name):
    experiment = EXPERIMENTS[name]
    draw = FIGURES[experiment.figure]
    assert draw(experiment, Results({}, FULL)) is None
    variant, env = experiment.variants[-1], experiment.envs[0]
    few = add({}, env, variant, [1000.0])
    if experiment.reference is not None:
        add(few, env, experiment.reference, [900.0])
    assert draw(experiment, Results(few, FULL)) is not None
    whole = invented([name], TWO, left_out=experiment.envs[1:])
    assert draw(experiment, Results(whole, FULL)) is not None


def test_the_depth_figure_has_means_errors_and_published_values():
    results = depth_runs((900, 3000, 1000), (1, 5, 8), (4, 10, 60))
    experiment = EXPERIMENTS["depth"]
    found = depth_curve(experiment, HOPPER, "return", Results(results, FULL))
    np.testing.assert_array_equal(found.epochs, [2, 10, 40])
    np.testing.assert_allclose(found.mean, [900, 3000, 1000])
    np.testing.assert_allclose(found.error, 9 / math.sqrt(3))
    assert dict(zip(found.paper_epochs, found.paper, strict=True))[10] == 3210
    drawn = depth_figure(experiment, Results(results, FULL))
    assert drawn is not None
    left, right = drawn.axes
    dotted = [line for axes in (left, right) for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[-1] for line in dotted] == [1296, 67.9, 10.1]
    elsewhere = depth_curve(experiment, WALKER, "return", Results(results, FULL))
    assert len(elsewhere.epochs) == len(elsewhere.paper) == 0


def test_the_alignment_panel_has_the_three_published_points():
    results = invented(["fisher-epochs"], TWO)
    drawn = fisher_epochs_figure(EXPERIMENTS["fisher-epochs"], Results(results, FULL))
    assert drawn is not None
    assert len(drawn.axes) == 4
    marks = [line for axes in drawn.axes for line in axes.lines if line.get_label() == "paper"]
    (mark,) = marks
    assert dict(zip(*mark.get_data(), strict=True)) == {4: 0.36, 10: 0.46, 40: 0.26}


def test_attribution_shows_every_seed_and_ppos_mean():
    results = add({}, CHEETAH, Variant("ppo"), [100.0, 200.0, 600.0])
    add(results, CHEETAH, Variant("capo"), [400.0])
    drawn = figures.returns_figure(EXPERIMENTS["attribution"], Results(results, FULL))
    assert drawn is not None
    (axes,) = drawn.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["ppo", "capo"]
    xs = [np.asarray(line.get_xdata(), float).tolist() for line in axes.lines]
    assert [100.0, 200.0, 600.0] in xs
    assert [300.0] in xs  # the mean, in its place
    assert [300.0, 300.0] in xs  # and as a line
    assert [400.0] in xs
