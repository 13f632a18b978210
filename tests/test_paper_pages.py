"""The paper's claims, figures and page, from made-up runs whose answers are known."""

import base64
import hashlib
import math
import re
from html import unescape

import numpy as np
import pytest
from matplotlib.colors import to_hex

from capo.paper import figures
from capo.paper.checks import Part, check
from capo.paper.claims import CLAIMS, claims_of
from capo.paper.contradictions import CONTRADICTIONS, furthest, same_settings
from capo.paper.depth_figures import depths_of
from capo.paper.design import Published, Variant
from capo.paper.experiments import (
    ANT,
    CHEETAH,
    DEPTHS,
    ENVS,
    EXPERIMENTS,
    HOPPER,
    HUMANOID,
    WALKER,
)
from capo.paper.gathering import gather
from capo.paper.measures import RETURN
from capo.paper.page import origins, page, write
from capo.paper.selection import Selection, run_of
from capo.paper.store import MARK
from capo.paper.tables import Entry
from capo.paper.verdicts import (
    FAILS,
    HOLDS,
    OPEN,
    WORDS,
    above,
    alike,
    direction,
    little,
    no_worse,
    outgrows,
    past,
    peak,
    steadier,
)
from papers import add, invented, summary

FULL, TWO = Selection(), Selection(seeds=2)
SHOWN = ["main", "curves", "depth", "fisher-epochs", "wall-clock", "carry", "attribution"]
TRAP = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
BY_NAME = {claim.name: claim for claim in CLAIMS if "over the run" not in claim.said}


def entry(mean, error, published=None):
    """Two seeds with this mean and standard error."""
    values = (float(mean - error), float(mean + error))
    return Entry(values, None if published is None else Published(published), 1)


def judge(name, results, chosen=FULL):
    return BY_NAME[name].check(chosen, results)


def pair(results, env, better, worse, algos=("capo", "ppo")):
    for algo, scores in zip(algos, (better, worse), strict=True):
        add(results, env, Variant(algo), scores)
    return results


@pytest.mark.parametrize(
    ("gap", "word"),
    [(2.01, HOLDS), (2.0, OPEN), (0.0, OPEN), (-2.0, OPEN), (-2.01, FAILS), (math.nan, OPEN)],
)
def test_two_errors_decide(gap, word):
    assert direction(gap, 1.0) == word


def test_means_are_compared_by_the_combined_error():
    # √(3² + 4²) = 5, so 10 is the border.
    for gap, word in ((10.1, HOLDS), (9.9, OPEN), (-9.9, OPEN), (-10.1, FAILS)):
        assert above({"a": entry(100 + gap, 3), "b": entry(100, 4)}).word == word
    said = above({"a": entry(115, 3, 7), "b": entry(100, 4)}).numbers
    assert said == "a 115.0 ± 3.0 (2), b 100.0 ± 4.0 (2); +3.0 σ; paper: a 7.0"


@pytest.mark.parametrize(
    "rule",
    [above, alike, little, no_worse, lambda e: past(e, 0.0, 1), lambda e: steadier(e, ("a", "b"))],
)
def test_one_seed_decides_nothing_and_none_is_not_run(rule):
    whole = entry(500, 0.1)
    assert rule({"a": Entry((1e6,), None, 0), "b": whole})[0] == OPEN
    assert "one seed" in rule({"a": Entry((1e6,), None, 0), "b": whole}).numbers
    assert rule({"a": Entry((), None, 0), "b": whole}).word == "not run"


def test_a_bound_and_a_peak():
    assert past({"x": entry(0.9, 0.04)}, 1.0, -1).word == HOLDS
    assert past({"x": entry(0.9, 0.06)}, 1.0, -1).word == OPEN
    assert past({"x": entry(1.2, 0.04)}, 1.0, -1).word == FAILS
    assert past({"x": entry(1.2, 0.04)}, 1.0, 1).word == HOLDS
    low, high = entry(0.2, 0.01), entry(0.3, 0.01)
    assert peak({"a": low, "b": high, "c": low}).word == HOLDS
    assert peak({"a": low, "b": high, "c": high}).word == OPEN
    assert peak({"a": high, "b": low, "c": low}).word == FAILS


def test_what_makes_no_difference_must_be_measured_well_enough():
    """Near and precise holds; near and rough is not decided; apart does not hold."""
    for rule in (alike, no_worse):
        assert rule({"a": entry(100, 2), "b": entry(103, 2)}).word == HOLDS
        assert rule({"a": entry(100, 20), "b": entry(103, 20)}).word == OPEN
    assert alike({"a": entry(150, 2), "b": entry(100, 2)}).word == FAILS
    assert no_worse({"a": entry(150, 2), "b": entry(100, 2)}).word == FAILS
    assert no_worse({"a": entry(100, 2), "b": entry(150, 2)}).word == HOLDS
    four = [entry(mean, 1) for mean in (100, 101, 102, 103)]
    assert little(dict(zip("abcd", four, strict=True))).word == HOLDS
    # Best and worst are 3 combined errors apart at 3·√2 = 4.2.
    for last, word in ((104.2, HOLDS), (104.3, FAILS)):
        assert little(dict(zip("abcd", [*four[:3], entry(last, 1)], strict=True))).word == word
    rough = [entry(mean, 30) for mean in (100, 110, 120, 130)]
    assert little(dict(zip("abcd", rough, strict=True))).word == OPEN


def test_growth_and_spread_are_relative():
    slow, fast = (entry(10, 0.1), entry(20, 0.1)), (entry(1, 0.01), entry(4, 0.04))
    names = ("signal", "waste")
    found = outgrows(dict(zip("abcd", [*slow, *fast], strict=True)), names)
    assert found == (HOLDS, "signal ×2.00, waste ×4.00 (2)")
    assert outgrows(dict(zip("abcd", [*fast, *slow], strict=True)), names).word == FAILS
    assert outgrows(dict(zip("abcd", [*slow, *slow], strict=True)), names).word == OPEN
    nothing = dict(zip("abcd", [entry(0, 0), *slow, *fast][:4], strict=True))
    assert outgrows(nothing, names).word == OPEN
    even, uneven = (entry(1000, 5), entry(1010, 5)), (entry(10, 0.1), entry(20, 0.1))
    found = steadier(dict(zip("abcd", [*even, *uneven], strict=True)), ("capo", "ppo"))
    assert found.word == HOLDS
    assert found.numbers.startswith("capo 0.01 ± 0.01, ppo 0.67 ± 0.01 (2)")
    found = steadier(dict(zip("abcd", [*uneven, *even], strict=True)), ("capo", "ppo"))
    assert found.word == FAILS


def test_capo_over_ppo_is_judged_task_by_task():
    results = pair({}, CHEETAH, [2000, 2010, 2020], [1000, 1010, 1020])
    pair(results, WALKER, [1000, 1010, 1020], [2000, 2010, 2020])
    pair(results, ANT, [1000, 3000], [900, 2500])
    assert judge("CAPO over PPO on HalfCheetah", results).word == HOLDS
    assert judge("CAPO over PPO on Walker2d", results).word == FAILS
    assert judge("CAPO over PPO on Ant", results).word == OPEN
    assert judge("CAPO over PPO on Humanoid", results).word == "not run"
    said = judge("CAPO over PPO on HalfCheetah", results).numbers
    assert said.startswith("capo 2010 ± 6 (3), ppo 1010 ± 6 (3); +122.5 σ; paper: capo 2737 ± 373")


def test_hopper_has_claims_of_its_own():
    results = pair({}, HOPPER, [2000, 2010], [1990, 2000])
    assert judge("CAPO beside PPO on Hopper", results).word == HOLDS
    assert judge("CAPO-Avg over PPO on Hopper", results).word == "not run"
    add(results, HOPPER, Variant("capo-avg"), [2500, 2510])
    assert judge("CAPO-Avg over PPO on Hopper", results).word == HOLDS


def depths(returns, signals, wastes):
    """Three seeds on Hopper at E = 2, 10 and 40."""
    results = {}
    for epochs, score, signal, waste in zip((2, 10, 40), returns, signals, wastes, strict=True):
        (variant,) = (v for v in DEPTHS if v.changes == (("epochs", epochs),))
        looks = [
            {
                "fisher/signal": signal * x,
                "fisher/waste": waste * x,
                "fisher/alignment": signal / (signal + waste) + (x - 1) / 100,
            }
            for x in (0.99, 1.0, 1.01)
        ]
        add(results, HOPPER, variant, [score - 9, score, score + 9], looks=looks)
    return results


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (depths((900, 3000, 1000), (1, 5, 8), (4, 10, 60)), HOLDS),
        (depths((900, 1000, 3000), (1, 1, 8), (60, 10, 20)), FAILS),
    ],
)
def test_depth_in_both_directions(found, word):
    for what in ("Return", "Waste", "Alignment"):
        assert judge(f"{what} against depth on Hopper", found).word == word
    assert judge("Signal against waste on Hopper", found).word == word
    # The same depth-10 runs are PPO's in the main table.
    assert run_of(HOPPER, Variant("ppo"), 1, FULL).name in found


@pytest.mark.parametrize(("ratio", "averaged", "pooled"), [(0.9, HOLDS, FAILS), (4, FAILS, HOLDS)])
def test_waste_in_both_directions(ratio, averaged, pooled):
    looks = [{"consensus/waste_ratio": ratio + x} for x in (-0.01, 0.0, 0.01)]
    results = {}
    for algo in ("capo-avg", "capo"):
        for env in (HOPPER, ANT):
            add(results, env, Variant(algo), [1, 2, 3], looks=looks)
    assert judge("CAPO-Avg reduces waste on Hopper", results).word == averaged
    assert judge("CAPO amplifies waste on Hopper", results).word == pooled
    assert judge("CAPO reduces waste on Ant", results).word == averaged
    said = judge("CAPO reduces waste on Ant", results).numbers
    assert "last update" in said
    assert "paper: last update 0.668 ± 0.004" in said


def test_signals_and_wastes_are_compared():
    looks = [
        {"consensus/rho_signal": 0.99 + x, "consensus/rho_waste": 0.9 - x} for x in (0.0, 0.001)
    ]
    results = add({}, HOPPER, Variant("capo-avg"), [1, 2], looks=looks)
    assert judge("Signals against wastes on Hopper", results).word == HOLDS


@pytest.mark.parametrize("name", ["warmup", "carry"])
def test_settings_that_matter_little(name):
    variants = [v for v in EXPERIMENTS[name].variants if v.algo == "capo"]
    results = {}
    for variant in variants:
        add(results, WALKER, variant, [1000, 1010, 1020])
    claim = f"The {name} of CAPO on Walker2d"
    assert judge(claim, results).word == HOLDS
    add(results, WALKER, variants[-1], [2000, 2010, 2020])
    assert judge(claim, results).word == FAILS


@pytest.mark.parametrize(("name", "what"), [("clip", "clip threshold"), ("target-kl", "target KL")])
def test_robustness_needs_every_value(name, what):
    results = {}
    variants = [v for v in EXPERIMENTS[name].variants if v.algo in ("capo", "ppo")]
    for index, variant in enumerate(variants[:-1]):
        even = 2000 if variant.algo == "capo" else 500 * (index + 1)
        add(results, ANT, variant, [even, even + 10])
    claim = f"Spread over the {what} on Ant"
    assert judge(claim, results).word == "not run"
    add(results, ANT, variants[-1], [2000, 2010])
    assert judge(claim, results).word == HOLDS


def test_width_and_time():
    results = {}
    for variant in EXPERIMENTS["width"].variants:
        add(results, ANT, variant, [1000, 1010] if variant.algo == "capo" else [1000, 1005])
    add(results, ANT, EXPERIMENTS["width"].variants[3], [500, 510])
    assert judge("Width of CAPO on Ant", results).word == HOLDS
    assert judge("Width of CAPO-Avg on Ant", results).word == FAILS
    times = {"ppo": [100, 102], "capo-avg": [120, 122], "capo": [300, 302]}
    for algo, seconds in times.items():
        for seed, each in enumerate(seconds, 1):
            run = run_of(HOPPER, Variant(algo), seed, FULL)
            results[run.name] = summary(run, seconds=each)
    assert judge("Time of CAPO-Avg on Hopper", results).word == HOLDS
    assert judge("Time of CAPO on Hopper", results).word == FAILS


def test_the_theorem_is_counted():
    results = add({}, HOPPER, Variant("capo"), [1, 2])
    assert judge("Theorem 1", results).word == HOLDS
    assert judge("Theorem 1", results).numbers == (
        "broken by the pool in 0 of 440 generations (2 runs), by the network made of it in 6 of 440"
    )
    mixed = add(dict(results), HOPPER, Variant("best-of-k"), [1])
    assert judge("Theorem 1", mixed).numbers == (
        "broken by the pool in 0 of 660 generations (3 runs), by the network made of it in 6 of "
        "440, by the expert of Best-of-K in 3 of 220"
    )
    name, run = results.popitem()
    results[name] = run._replace(totals={**run.totals, "shortened_violations": 2.0})
    assert judge("Theorem 1", results).numbers.endswith(
        "by the network made of it in 6 of 440, 2 of them where the line search shortened the step"
    )
    results[name] = run._replace(totals={**run.totals, "q_violations": 1.0})
    assert judge("Theorem 1", results).word == FAILS
    assert judge("Theorem 1", add({}, HOPPER, Variant("ppo"), [1, 2])).word == "not run"


def test_runs_of_other_sizes_are_judged_and_of_several_lengths_are_not():
    small = Selection.of_tier("smoke")
    results = {}
    for algo, scores in (("ppo", [2, 3]), ("ppo-kx", [20, 21])):
        add(results, CHEETAH, Variant(algo), scores, chosen=small)
    found = judge("PPO over PPO-K× on HalfCheetah", results, small)
    assert found.word == FAILS
    assert found.numbers.startswith("other sizes; ppo 2 ± 0 (2), ppo-kx 20 ± 0 (2)")
    assert judge("PPO over PPO-K× on HalfCheetah", results).word == "not run"
    results = add({}, CHEETAH, Variant("ppo"), [1, 2])
    add(results, CHEETAH, Variant("capo"), [100, 101], chosen=Selection(steps=200_000))
    found = judge("CAPO over PPO on HalfCheetah", results)
    assert found == (OPEN, "runs of 200k and 1M steps cannot be compared")


def test_every_claim_has_a_verdict_with_and_without_runs():
    names = list(EXPERIMENTS)
    results = invented(names, TWO)
    assert {claim.check(TWO, {}).word for claim in CLAIMS} == {"not run"}
    found = [claim.check(TWO, results) for claim in CLAIMS]
    assert {verdict.word for verdict in found} <= set(WORDS) - {"not run"}
    assert all(verdict.numbers and "nan" not in verdict.numbers for verdict in found)
    assert sum(len(claims) for claims in claims_of(names).values()) == len(CLAIMS)
    assert {name for claim in CLAIMS for name in claim.experiments} <= set(EXPERIMENTS)
    assert claims_of(["curves"])["curves"]
    assert len({(claim.name, claim.said) for claim in CLAIMS}) == len(CLAIMS)


def test_a_task_that_was_not_chosen_is_not_judged():
    results = pair({}, CHEETAH, [2000, 2010], [1000, 1010])
    parts = [Part(algo, Variant(algo), RETURN) for algo in ("capo", "ppo")]
    rule = check("main", CHEETAH, parts, above)
    assert rule(FULL, results).word == HOLDS
    assert rule(Selection(envs=(HOPPER,)), results).word == "not run"


def test_contradictions_are_found_not_listed():
    assert furthest(same_settings("ppo", ANT)) > 15
    assert furthest(same_settings("ppo", CHEETAH)) < 2
    assert furthest({}) == 0
    ant = next(line for line in CONTRADICTIONS if line.startswith("ppo on Ant at one"))
    for number in ("2142 ± 97 (Table 4)", "316 ± 47 (Table 10", "295 ± 78 (Table 11"):
        assert number in ant
    whole = "\n".join(CONTRADICTIONS)
    for number in ("2463", "3210", "932", "3871", "2587", "Table 4 gives 9.2", "in 4 of 12 cells"):
        assert number in whole
    assert "falls from 3116 at K = 8 to 1746 at K = 16" in whole
    assert not any("\n" in line for line in CONTRADICTIONS)


def curve(steps, returns):
    return {"steps": [float(x) for x in steps], "return": [float(x) for x in returns]}


def test_the_curve_is_the_mean_and_the_band_one_error():
    results = {}
    for seed, slope in enumerate((1.0, 2.0, 6.0), 1):
        run = run_of(HOPPER, Variant("ppo"), seed, FULL)
        steps = np.linspace(0, 1e6, 10 + seed)  # no two seeds have the same steps
        results[run.name] = summary(run, curve=curve(steps, slope * steps))
    drawn = figures.curves(EXPERIMENTS["curves"], FULL, results)
    assert drawn is not None
    (axes,) = [axes for axes in drawn.axes if axes.get_visible()]
    (line,) = axes.lines
    x, y = np.asarray(line.get_data(), float)
    np.testing.assert_allclose(y, 3.0 * 1e6 * x, rtol=1e-9)
    assert x.max() == 1.0
    assert to_hex(line.get_color()) == figures.color_of("ppo")
    corners = axes.collections[0].get_paths()[0].vertices
    error = 1e6 * math.sqrt(7 / 3)  # of 1, 2, 6
    top, bottom = (pick(corners[corners[:, 0] == 1.0][:, 1]) for pick in (np.max, np.min))
    np.testing.assert_allclose([top, bottom], [3e6 + error, 3e6 - error], rtol=1e-9)
    assert axes.get_title() == "Hopper-v4, 3 seeds"
    assert "Ant-v4" in drawn.get_supxlabel()


def test_runs_of_another_length_say_so():
    whole = judge("CAPO over PPO on Humanoid", pair({}, HUMANOID, [500], [400]))
    assert whole.numbers.startswith("capo 500 (1), ppo 400 (1); one seed")
    results = {}
    for algo in ("capo", "ppo"):
        add(results, HUMANOID, Variant(algo), [500], chosen=Selection(steps=1_000_000))
    found = judge("CAPO over PPO on Humanoid", results)
    assert found.word == OPEN
    assert found.numbers.startswith("1M steps, paper 4M; capo 500 (1), ppo 500 (1); one seed")
    (axes,) = figures.curves(EXPERIMENTS["curves"], FULL, results).axes
    assert axes.get_title() == "Humanoid-v4, 1 seed, 1M steps, paper 4M"


def test_one_seed_has_no_band_and_no_shared_steps_no_line():
    run, other = (run_of(HOPPER, Variant("capo"), seed, FULL) for seed in (1, 2))
    one = {run.name: summary(run)}
    (axes,) = figures.curves(EXPERIMENTS["curves"], FULL, one).axes
    assert (len(axes.lines), len(axes.collections)) == (1, 0)
    early = summary(run, curve=curve([1, 2], [1, 2]))
    late = summary(other, curve=curve([3, 4], [1, 2]))
    assert figures.mean_curve([early, late]) is None
    assert figures.mean_curve([summary(run, curve=curve([], []))]) is None
    held = figures.mean_curve([early, summary(other, curve={"steps": [1.0], "return": [None]})])
    assert held is not None
    assert held.seeds == 1


@pytest.mark.parametrize("name", [n for n, each in EXPERIMENTS.items() if each.figure])
def test_figures_are_none_without_runs_and_drawn_with_few(name):
    experiment = EXPERIMENTS[name]
    draw = figures.FIGURES[experiment.figure]
    assert draw(experiment, FULL, {}) is None
    variant, env = experiment.variants[-1], experiment.envs[0]
    few = add({}, env, variant, [1000.0])
    assert draw(experiment, FULL, few) is not None
    whole = invented([name], TWO, left_out=experiment.envs[1:])
    assert draw(experiment, FULL, whole) is not None


def test_depths_have_means_errors_and_the_papers():
    results = depths((900, 3000, 1000), (1, 5, 8), (4, 10, 60))
    experiment = EXPERIMENTS["depth"]
    found = depths_of(experiment, HOPPER, "return", FULL, results)
    np.testing.assert_array_equal(found.epochs, [2, 10, 40])
    np.testing.assert_allclose(found.mean, [900, 3000, 1000])
    np.testing.assert_allclose(found.error, 9 / math.sqrt(3))
    assert dict(zip(found.paper_epochs, found.paper, strict=True))[10] == 3210
    drawn = figures.depth(experiment, FULL, results)
    assert drawn is not None
    left, right = drawn.axes
    dotted = [line for axes in (left, right) for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[-1] for line in dotted] == [1296, 67.9, 10.1]
    elsewhere = depths_of(experiment, WALKER, "return", FULL, results)
    assert len(elsewhere.epochs) == len(elsewhere.paper) == 0


def test_alignment_has_the_papers_three_marks():
    results = invented(["fisher-epochs"], TWO)
    drawn = figures.fisher_epochs(EXPERIMENTS["fisher-epochs"], FULL, results)
    assert drawn is not None
    assert len(drawn.axes) == 4
    marks = [line for axes in drawn.axes for line in axes.lines if line.get_label() == "paper"]
    (mark,) = marks
    assert dict(zip(*mark.get_data(), strict=True)) == {4: 0.36, 10: 0.46, 40: 0.26}


def test_attribution_shows_every_seed_and_ppos_mean():
    results = add({}, CHEETAH, Variant("ppo"), [100.0, 200.0, 600.0])
    add(results, CHEETAH, Variant("capo"), [400.0])
    drawn = figures.attribution(EXPERIMENTS["attribution"], FULL, results)
    assert drawn is not None
    (axes,) = drawn.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["ppo", "capo"]
    xs = [np.asarray(line.get_xdata(), float).tolist() for line in axes.lines]
    assert [100.0, 200.0, 600.0] in xs
    assert [300.0] in xs  # the mean, in its place
    assert [300.0, 300.0] in xs  # and as a line
    assert [400.0] in xs


def made_page(names, chosen, results=None, failures=None, command="capo"):
    results = results or {}
    shown = gather(names, chosen, results)
    return page(names, shown, chosen, results, failures or {}, command).decode()


one_worker = pytest.mark.xdist_group("paper-page")


@pytest.fixture(scope="module")
def made():
    """Most experiments, half of the tasks not run, something failed."""
    results = invented(SHOWN, TWO, left_out=ENVS[3:])
    name, run = results.popitem()
    results[name] = run._replace(origin={"versions": {TRAP: TRAP}, "commit": TRAP, "date": TRAP})
    return made_page(SHOWN, TWO, results, {TRAP: TRAP}, f"capo {TRAP}")


@one_worker
def test_the_page_is_alone_and_names_are_text(made):
    assert MARK in made.encode()[:1000]
    assert TRAP not in made
    assert unescape(made).count(TRAP) >= 5
    assert not re.search(r"<script|<iframe|<object|<link(?! rel=\"icon\" href=\"data:,\")", made)
    sources = re.findall(r"(?:src|href)=\"([^\"]*)\"", made)
    assert {source.partition(":")[0] for source in sources if not source.startswith("#")} == {
        "data"
    }
    assert "url(" not in made
    assert " style=" not in made


@one_worker
def test_the_policy_is_of_this_very_style(made):
    style = re.search(r"<style>(.*)</style>", made, re.DOTALL)[1]
    policy = unescape(re.search(r"Content-Security-Policy\" content=\"([^\"]*)\"", made)[1])
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


@one_worker
def test_the_page_has_everything(made):
    for name in SHOWN:
        assert f'<section id="{name}">' in made
        assert f'<a href="#{name}">' in made
        assert EXPERIMENTS[name].title in unescape(made)
    assert made.count("data:image/png;base64,") == 4
    for line in CONTRADICTIONS:
        assert line in unescape(made)
    assert "not run" in made
    assert "1 run failed" in made
    assert '<span class="tag holds">' in made
    order = [made.index(f'<section id="{name}">') for name in SHOWN]
    assert order == sorted(order)
    assert "`" not in made


def test_a_page_of_nothing_and_in_another_order():
    found = made_page(["waste", "curves"], FULL)
    assert found.index('id="waste"') < found.index('id="curves"')
    assert "failed" not in found
    assert "data:image" not in found
    assert '<p class="lead">0 of 336 runs; the paper&#x27;s lengths' in found
    trial = made_page(["main"], Selection.of_tier("smoke"))
    assert "2.56k steps each; 1 seed; preset default; other sizes" in trial


def test_origins_name_all_versions_and_the_first_and_last_day():
    runs = list(add({}, HOPPER, Variant("ppo"), [1, 2]).values())
    later = {"versions": {"capo": "0.2.0"}, "commit": None, "cores": 2, "date": "2026-03-04"}
    runs[1] = runs[1]._replace(origin=later)
    assert origins(runs) == [
        "Trained with capo 0.1.0 and 0.2.0.",
        "Commit: 0123abc.",
        "Cores of a run: 1, 2.",
        "Run from 2026-01-02 to 2026-03-04.",
    ]
    assert origins([]) == ["It is not known what the runs were made with."]


def test_files_are_written_for_each_experiment(tmp_path):
    results = invented(["depth", "width"], TWO)
    out = tmp_path / "deep" / "out"
    write(out, ["depth", "width", "curves"], TWO, results, {}, "capo reproduce depth")
    names = {path.name for path in out.iterdir()}
    # PPO at ten epochs has a learning curve as well.
    assert names == {
        "index.html",
        "depth.md",
        "depth.csv",
        "depth.png",
        "width.md",
        "width.csv",
    } | {
        "curves.csv",
        "curves.md",
        "curves.png",
    }
    said = (out / "depth.md").read_text()
    assert said.startswith("# Deeper updates")
    assert "![" in said
    assert "](depth.png)" in said
    assert "## By depth" in said
    assert re.search(r"^- \*\*[a-z ]+\*\*, Return against depth on Hopper: ", said, re.MULTILINE)
    assert (out / "depth.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "depth.csv").read_text().startswith("table,row,column,seeds,ours")
    assert "png" not in (out / "width.md").read_text()
    assert b"capo reproduce depth" in (out / "index.html").read_bytes()
