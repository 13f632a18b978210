"""Verdicts on the paper's claims, from made-up runs whose answers are known."""

import pytest

from capo.paper.checks import Quantity, make_check
from capo.paper.claims import CLAIMS, claims_of
from capo.paper.experiments import EXPERIMENTS
from capo.paper.tasks import ANT, CHEETAH, HOPPER, HUMANOID, PAPER, WALKER, of_tier
from capo.paper.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    WORDS,
    above,
)
from capo.sweeps.design import Variant
from capo.sweeps.measures import RETURN
from capo.sweeps.results import Results
from capo.sweeps.selection import planned_run
from support.paper_runs import add, add_pair, depth_runs, invented, summary

FULL, TWO = PAPER, PAPER._replace(seeds=2)
BY_NAME = {claim.name: claim for claim in CLAIMS if "over the run" not in claim.statement}


def judge(name, results, selection=FULL):
    return BY_NAME[name].check(Results(results, selection))


def test_capo_over_ppo_is_judged_task_by_task():
    results = add_pair({}, CHEETAH, [2000, 2010, 2020], [1000, 1010, 1020])
    add_pair(results, WALKER, [1000, 1010, 1020], [2000, 2010, 2020])
    add_pair(results, ANT, [1000, 3000], [900, 2500])
    assert judge("CAPO over PPO on HalfCheetah", results).word == HOLDS
    assert judge("CAPO over PPO on Walker2d", results).word == FAILS
    assert judge("CAPO over PPO on Ant", results).word == UNDECIDED
    assert judge("CAPO over PPO on Humanoid", results).word == "not run"
    said = judge("CAPO over PPO on HalfCheetah", results).numbers
    assert said.startswith("capo 2010 ± 6 (3), ppo 1010 ± 6 (3); +122.5 σ; paper: capo 2737 ± 373")


def test_claims_about_hopper():
    results = add_pair({}, HOPPER, [2000, 2010], [1990, 2000])
    assert judge("CAPO equal to PPO on Hopper", results).word == HOLDS
    assert judge("CAPO-Avg over PPO on Hopper", results).word == "not run"
    add(results, HOPPER, Variant("capo-avg"), [2500, 2510])
    assert judge("CAPO-Avg over PPO on Hopper", results).word == HOLDS


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (depth_runs((900, 3000, 1000), (1, 5, 8), (4, 10, 60)), HOLDS),
        (depth_runs((900, 1000, 3000), (1, 1, 8), (60, 10, 20)), FAILS),
    ],
)
def test_claims_about_depth_hold_or_fail(found, word):
    for what in ("Return", "Waste", "Alignment"):
        assert judge(f"{what} against depth on Hopper", found).word == word
    assert judge("Signal against waste on Hopper", found).word == word
    # The same depth-10 runs are PPO's in the main table.
    assert planned_run(HOPPER, Variant("ppo"), 1, FULL).key in found


@pytest.mark.parametrize(("ratio", "averaged", "pooled"), [(0.9, HOLDS, FAILS), (4, FAILS, HOLDS)])
def test_claims_about_waste_hold_or_fail(ratio, averaged, pooled):
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


def test_correlations_of_signal_and_waste_are_compared():
    looks = [
        {"consensus/rho_signal": 0.99 + x, "consensus/rho_waste": 0.9 - x} for x in (0.0, 0.001)
    ]
    results = add({}, HOPPER, Variant("capo-avg"), [1, 2], looks=looks)
    assert judge("Signals against wastes on Hopper", results).word == HOLDS


@pytest.mark.parametrize("name", ["warmup", "carry"])
def test_claims_that_a_setting_matters_little(name):
    variants = [v for v in EXPERIMENTS[name].variants if v.algo == "capo"]
    results = {}
    for variant in variants:
        add(results, WALKER, variant, [1000, 1010, 1020])
    claim = f"The {name} of CAPO on Walker2d"
    assert judge(claim, results).word == HOLDS
    add(results, WALKER, variants[-1], [2000, 2010, 2020])
    assert judge(claim, results).word == FAILS


@pytest.mark.parametrize(("name", "what"), [("clip", "clip threshold"), ("target-kl", "target KL")])
def test_robustness_needs_all_values_of_a_setting(name, what):
    results = {}
    variants = [v for v in EXPERIMENTS[name].variants if v.algo in ("capo", "ppo")]
    for index, variant in enumerate(variants[:-1]):
        even = 2000 if variant.algo == "capo" else 500 * (index + 1)
        add(results, ANT, variant, [even, even + 10])
    claim = f"Spread over the {what} on Ant"
    assert judge(claim, results).word == "not run"
    add(results, ANT, variants[-1], [2000, 2010])
    assert judge(claim, results).word == HOLDS


def test_claims_about_width_and_time():
    results = {}
    for variant in EXPERIMENTS["width"].variants:
        add(results, ANT, variant, [1000, 1010] if variant.algo == "capo" else [1000, 1005])
    add(results, ANT, EXPERIMENTS["width"].variants[3], [500, 510])
    assert judge("Width of CAPO on Ant", results).word == HOLDS
    assert judge("Width of CAPO-Avg on Ant", results).word == FAILS
    times = {"ppo": [100, 102], "capo-avg": [120, 122], "capo": [300, 302]}
    for algo, seconds in times.items():
        for seed, each in enumerate(seconds, 1):
            run = planned_run(HOPPER, Variant(algo), seed, FULL)
            results[run.key] = summary(run, seconds=each)
    assert judge("Time of CAPO-Avg on Hopper", results).word == HOLDS
    assert judge("Time of CAPO on Hopper", results).word == FAILS


def test_violations_of_theorem_1_are_counted():
    results = add({}, HOPPER, Variant("capo"), [1, 2])
    assert judge("Theorem 1", results).word == HOLDS
    assert judge("Theorem 1", results).numbers == (
        "violated by the pool in 0 of 440 generations (2 runs), by the consensus network in 6 of "
        "440"
    )
    mixed = add(dict(results), HOPPER, Variant("best-of-k"), [1])
    assert judge("Theorem 1", mixed).numbers == (
        "violated by the pool in 0 of 660 generations (3 runs), by the consensus network in 6 of "
        "440, by the expert of Best-of-K in 3 of 220"
    )
    name, run = results.popitem()
    results[name] = run._replace(totals={**run.totals, "shortened_violations": 2.0})
    assert judge("Theorem 1", results).numbers.endswith(
        "by the consensus network in 6 of 440, 2 of them where the line search shortened the step"
    )
    results[name] = run._replace(totals={**run.totals, "q_violations": 1.0})
    assert judge("Theorem 1", results).word == FAILS
    assert judge("Theorem 1", add({}, HOPPER, Variant("ppo"), [1, 2])).word == "not run"


def test_other_sizes_are_judged_but_mixed_lengths_are_not():
    small = of_tier("smoke")
    results = {}
    for algo, scores in (("ppo", [2, 3]), ("ppo-kx", [20, 21])):
        add(results, CHEETAH, Variant(algo), scores, selection=small)
    found = judge("PPO over PPO-K× on HalfCheetah", results, small)
    assert found.word == FAILS
    assert found.numbers.startswith("other sizes; ppo 2 ± 0 (2), ppo-kx 20 ± 0 (2)")
    assert judge("PPO over PPO-K× on HalfCheetah", results).word == "not run"
    results = add({}, CHEETAH, Variant("ppo"), [1, 2])
    add(results, CHEETAH, Variant("capo"), [100, 101], selection=PAPER._replace(steps=200_000))
    found = judge("CAPO over PPO on HalfCheetah", results)
    assert found == (UNDECIDED, "runs of 200k and 1M steps cannot be compared")


def test_the_numbers_state_another_length():
    whole = judge("CAPO over PPO on Humanoid", add_pair({}, HUMANOID, [500], [400]))
    assert whole.numbers.startswith("capo 500 (1), ppo 400 (1); one seed")
    results = {}
    for algo in ("capo", "ppo"):
        add(results, HUMANOID, Variant(algo), [500], selection=PAPER._replace(steps=1_000_000))
    found = judge("CAPO over PPO on Humanoid", results)
    assert found.word == UNDECIDED
    assert found.numbers.startswith("1M steps, paper 4M; capo 500 (1), ppo 500 (1); one seed")


def test_every_claim_has_a_verdict_with_and_without_runs():
    names = list(EXPERIMENTS)
    results = invented(names, TWO)
    assert {claim.check(Results({}, TWO)).word for claim in CLAIMS} == {"not run"}
    found = [claim.check(Results(results, TWO)) for claim in CLAIMS]
    assert {verdict.word for verdict in found} <= set(WORDS) - {"not run"}
    assert all(verdict.numbers and "nan" not in verdict.numbers for verdict in found)
    assert sum(len(claims) for claims in claims_of(names).values()) == len(CLAIMS)
    assert {name for claim in CLAIMS for name in claim.experiments} <= set(EXPERIMENTS)
    assert claims_of(["curves"])["curves"]
    assert len({(claim.name, claim.statement) for claim in CLAIMS}) == len(CLAIMS)


def test_a_task_outside_the_selection_is_not_judged():
    results = add_pair({}, CHEETAH, [2000, 2010], [1000, 1010])
    parts = [Quantity(algo, Variant(algo), RETURN) for algo in ("capo", "ppo")]
    rule = make_check("main", CHEETAH, parts, above)
    assert rule(Results(results, FULL)).word == HOLDS
    assert rule(Results(results, PAPER._replace(envs=(HOPPER,)))).word == "not run"
