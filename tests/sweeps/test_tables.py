"""The tables: the paper's numbers in their cells, and ours beside them."""

import math

import pytest

from capo.paper.experiments import EXPERIMENTS
from capo.paper.published import published_numbers
from capo.paper.tasks import ANT, CHEETAH, HOPPER, HUMANOID, PAPER
from capo.sweeps.design import Published, Variant
from capo.sweeps.formats import to_csv, to_markdown, to_text
from capo.sweeps.results import Results
from capo.sweeps.selection import planned_run
from capo.sweeps.tables import AGREES, HIGHER, LOWER, Entry, build_table
from support.paper_runs import add, summary

FULL = PAPER


def variants(name, **changes):
    (found,) = [v for v in EXPERIMENTS[name].variants if dict(v.changes) == changes]
    return found


def variants_of(name, algo, **changes):
    found = EXPERIMENTS[name].variants
    return next(v for v in found if v.algo == algo and dict(v.changes) == changes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_published_number_has_a_cell(name):
    """The number of cells is that of the published tables."""
    experiment, found = EXPERIMENTS[name], published_numbers()
    count = 0
    for layout in experiment.layouts:
        made = build_table(experiment, layout, Results({}, FULL))
        count += sum(entry.published is not None for entry in made.entries.values())
    swept = {"carry": 3 * 2 * 4, "width": 3 * 2 * 4, "clip": 3 * 3 * 4}
    swept |= {"target-kl": 3 * 3 * 4, "warmup": 3 * 2 * 4, "main": 7 * 6}
    swept |= {"depth": 7 * 6, "fisher-epochs": 3, "correlation": 5 * 4, "waste": 5 * 2 * 3}
    swept |= {"wall-clock": 6 * 7, "compute": 6 * 3}
    assert count == swept.get(name, 0)
    if name in ("carry", "clip", "warmup"):
        rows = found[name]["rows"].values()
        assert count == sum(len(v) for row in rows for v in row.values())


def test_published_numbers_are_in_the_right_cells():
    def cell(name, env, variant, index=0):
        layout = EXPERIMENTS[name].layouts[index]
        return layout.published(env, variant, layout.measures[0])

    assert cell("main", HOPPER, Variant("capo-avg")) == (3193, 93)
    assert cell("depth", HOPPER, variants("depth", epochs=10)) == (3210, 193)
    assert cell("clip", ANT, variants_of("clip", "ppo", clip=0.2)) == (316, 47)
    assert cell("target-kl", ANT, variants_of("target-kl", "ppo", target_kl=None)) == (295, 78)
    assert cell("width", CHEETAH, variants_of("width", "capo", experts=16)) == (3556, 965)
    assert cell("wall-clock", HOPPER, Variant("ppo")) == (1027, 8)
    assert cell("wall-clock", HOPPER, Variant("capo"), 1)[0] == 1.42
    assert cell("correlation", HUMANOID, Variant("capo-avg"))[0] == 1.0
    assert cell("waste", ANT, Variant("capo"))[0] == 0.069


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
    add(found, HUMANOID, Variant("ppo"), [500], PAPER._replace(steps=1_000_000))
    made = build_table(main_experiment, main_experiment.layouts[0], Results(found, FULL))
    assert made.entries[("`ppo`",), HOPPER].ours == "2800 ± 100 (2)"
    assert made.entries[("`ppo`",), HOPPER].verdict == AGREES
    shorter = made.entries[("`ppo`",), HUMANOID]
    assert (shorter.ours, shorter.verdict) == ("500 (1)", "")
    assert shorter.gap == "1M steps, paper 4M"
    assert made.entries[("`capo`",), HOPPER].ours == "not run"
    assert Results(found, FULL).count(main_experiment) == (2, 7 * 6 * 8, 1)
    assert str(Results(found, FULL).count(main_experiment)) == "2 of 336 runs and 1 more"
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
    trained = build_table(
        EXPERIMENTS["curves"], EXPERIMENTS["curves"].layouts[0], Results(found, FULL)
    )
    assert "| 500 (1)<br>1M steps, paper 4M |" in to_markdown(trained), "said without a number, too"
    lines = to_csv([made]).decode().splitlines()
    assert len(lines) == 1 + 42
    assert "Final return,ppo,Hopper-v4,2,2800,100,2711,268,0.311136,agrees" in lines


def test_relative_measures_are_over_ppos_mean():
    clock = EXPERIMENTS["wall-clock"]
    found = {
        run.key: summary(run, seconds=seconds)
        for algo, seed, seconds in (("ppo", 1, 90.0), ("ppo", 2, 110.0), ("capo", 1, 150.0))
        for run in [planned_run(HOPPER, Variant(algo), seed, FULL)]
    }
    made = build_table(clock, clock.layouts[1], Results(found, FULL))
    assert made.entries[("`capo`",), HOPPER].values == (1.5,)
    assert (
        build_table(clock, clock.layouts[1], Results({}, FULL)).entries[("`capo`",), HOPPER].values
        == ()
    )
