"""Claims of the paper about signal, waste and alignment of updates."""

from collections.abc import Sequence

from capo.paper.checks import Claim, Quantity, make_check, variant_with
from capo.paper.experiments import EXPERIMENTS, SEVERAL_EXPERTS
from capo.paper.measures import DEPTH_COLUMNS, WASTE, WASTE_LAST
from capo.paper.published import METHOD_NAMES, task_name
from capo.paper.tasks import ANT, CHEETAH, HOPPER, HUMANOID, WALKER
from capo.paper.verdicts import FAILS, HOLDS, Verdict, above, beyond, grows_faster, peak
from capo.sweeps.design import Measure, Variant
from capo.sweeps.results import Results
from capo.sweeps.summaries import Summary
from capo.sweeps.tables import NOT_RUN

GENERATIONS = "wide_generations"
"""Key of a summary's total: generations with several experts."""


def depth_claims(name: str, env: str, low: int, where: str) -> list[Claim]:
    """Effects of the epochs on one task; the alignment is claimed to rise from depth `low`."""

    def at(column: str, *depths: int) -> list[Quantity]:
        measure = DEPTH_COLUMNS[column]
        return [Quantity(f"E = {e}", variant_with(name, "ppo", e), measure) for e in depths]

    growth = [
        each._replace(name=f"{column} at {each.name}")
        for column in ("signal", "waste")
        for each in at(column, 10, 40)
    ]
    checks = (
        (
            "Return against depth",
            "PPO's return at E = 40 is below that at E = 10.",
            make_check(name, env, at("return", 10, 40), above),
        ),
        (
            "Waste against depth",
            "Waste is larger at E = 40 than at E = 2.",
            make_check(name, env, at("waste", 40, 2), above),
        ),
        (
            "Signal against waste",
            "Signal levels off and waste does not: from E = 10 to E = 40 waste grows by the larger "
            "factor.",
            make_check(
                name, env, growth, lambda entries: grows_faster(entries, ("signal", "waste"))
            ),
        ),
        (
            "Alignment against depth",
            f"Alignment rises and falls again: at E = 10 it is above that at E = {low} and E = 40.",
            make_check(name, env, at("alignment", low, 10, 40), peak),
        ),
    )
    return [
        Claim(f"{title} on {task_name(env)}", statement, where, (name,), check)
        for title, statement, check in checks
    ]


def correlation_claims(when: str, columns: dict[str, Measure]) -> list[Claim]:
    """The experts' signals agree more than their wastes."""
    cosines = [
        Quantity(f"ρ of {name}", Variant("capo-avg"), columns[f"rho_{name}"])
        for name in ("signal", "waste")
    ]
    return [
        Claim(
            f"Signals against wastes on {task_name(env)}",
            f"The experts' signals are more alike than their wastes, {when}.",
            "Section 5.3, Table 5",
            ("correlation",),
            make_check("correlation", env, cosines, above),
        )
        for env in EXPERIMENTS["correlation"].envs
    ]


def waste_claims() -> list[Claim]:
    """Waste of the consensus relative to its experts."""
    averaged = "The average has less waste than its experts."
    small = "On the small tasks the pool has more waste than its experts."
    large = "On the large tasks the pool has less waste than its experts."
    return [
        *(_waste_claim("capo-avg", env, -1, averaged) for env in EXPERIMENTS["waste"].envs),
        *(_waste_claim("capo", env, 1, small) for env in (HOPPER, CHEETAH, WALKER)),
        *(_waste_claim("capo", env, -1, large) for env in (ANT, HUMANOID)),
    ]


def _waste_claim(algo: str, env: str, sign: int, statement: str) -> Claim:
    """The ratio of wastes is above 1, or below 1 if `sign` is −1."""
    ratios = [
        Quantity("last update", Variant(algo), WASTE_LAST["ratio"]),
        Quantity("over the run", Variant(algo), WASTE["ratio"]),
    ]
    verb = "amplifies" if sign > 0 else "reduces"
    return Claim(
        f"{METHOD_NAMES[algo]} {verb} waste on {task_name(env)}",
        f"{statement} Judged by the last update, as in the paper.",
        "Section 5.3, Table 6",
        ("waste",),
        make_check("waste", env, ratios, lambda entries: beyond(entries, 1.0, sign)),
    )


def theorem_claim() -> Claim:
    """Theorem 1, counted over all generations with several experts: no statistics needed."""
    experiments = (
        name
        for name, each in EXPERIMENTS.items()
        if any(v.algo in SEVERAL_EXPERTS for v in each.variants)
    )
    return Claim(
        "Theorem 1",
        "The analytic pool is never worse than its mean expert: in KL, and in surrogate minus KL.",
        "Section 4",
        tuple(experiments),
        _check_theorem,
    )


def _check_theorem(results: Results) -> Verdict:
    runs = [run for run in results.runs.values() if run.totals.get(GENERATIONS)]
    if not runs:
        return Verdict(NOT_RUN, "")
    merged = [run for run in runs if run.algo in SEVERAL_EXPERTS]
    picked = [run for run in runs if run.algo not in SEVERAL_EXPERTS]
    parts = [f"violated by the pool in {_share(runs, 'q_violations')} generations"]
    parts[0] += f" ({len(runs)} runs)"
    if merged:
        parts.append(f"by the consensus network in {_share(merged, 'violations')}")
        shortened, violations = (
            sum(run.totals.get(key, 0) for run in merged)
            for key in ("shortened_violations", "violations")
        )
        many = "all" if shortened == violations else f"{shortened:.0f}"
        if shortened:
            parts.append(f"{many} of them where the line search shortened the step")
    if picked:
        parts.append(f"by the expert of Best-of-K in {_share(picked, 'violations')}")
    violated = any(run.totals.get("q_violations") for run in runs)
    return Verdict(FAILS if violated else HOLDS, ", ".join(parts))


def _share(runs: Sequence[Summary], key: str) -> str:
    """7 of 219."""
    return " of ".join(
        f"{sum(run.totals.get(k, 0) for run in runs):.0f}" for k in (key, GENERATIONS)
    )
