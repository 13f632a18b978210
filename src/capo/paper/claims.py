"""What the paper claims, each as a check of our own runs."""

from collections.abc import Sequence

from capo.paper.checks import Claim, Part, Rule, check, setting, swept
from capo.paper.design import Measure, Variant
from capo.paper.experiments import ANT, CHEETAH, ENVS, EXPERIMENTS, HOPPER, HUMANOID, WALKER, WIDE
from capo.paper.measures import (
    AGREEMENT,
    AGREEMENT_LAST,
    DEPTH_COLUMNS,
    RETURN,
    SECONDS_RATIO,
    WASTE,
    WASTE_LAST,
)
from capo.paper.published import look_up, method, task
from capo.paper.selection import Selection
from capo.paper.summaries import Summary
from capo.paper.tables import NOT_RUN, Results
from capo.paper.verdicts import (
    FAILS,
    HOLDS,
    Verdict,
    above,
    alike,
    little,
    no_worse,
    outgrows,
    past,
    peak,
    steadier,
)

NAMES = {
    "ppo": "PPO",
    "ppo-kx": "PPO-K×",
    "trpo": "TRPO",
    "capo-avg": "CAPO-Avg",
    "capo": "CAPO",
}
GENERATIONS = "wide_generations"
"""Those with several experts."""
SMALL = (
    "It holds if best and worst are less than a quarter of the mean apart by 2 errors, and does "
    "not hold if they are more than 3 errors apart."
)


def _over(better: str, worse: str, envs: Sequence[str], rule: Rule, said: str) -> list[Claim]:
    """One method's final return beside another's, task by task."""
    link = "beside" if rule is alike else "over"
    parts = [Part(algo, Variant(algo), RETURN) for algo in (better, worse)]
    return [
        Claim(
            f"{NAMES[better]} {link} {NAMES[worse]} on {task(env)}",
            said,
            "Section 5.2, Table 4",
            ("main", "curves"),
            check("main", env, parts, rule),
        )
        for env in envs
    ]


def _main() -> list[Claim]:
    others = [env for env in ENVS if env != HOPPER]
    return [
        *_over("capo", "ppo", others, above, "CAPO's return is above PPO's, except on Hopper."),
        *_over(
            "capo",
            "ppo",
            [HOPPER],
            alike,
            "On Hopper CAPO and PPO are about equal. It holds if they are less than a quarter "
            "apart by 2 errors, and does not hold if they are more than 2 errors apart.",
        ),
        *_over("capo-avg", "ppo", [HOPPER], above, "On Hopper CAPO-Avg's return is above PPO's."),
        *_over("capo", "trpo", others, above, "CAPO's return is above TRPO's, except on Hopper."),
        *_over("capo", "capo-avg", others, above, "CAPO's is above CAPO-Avg's, except on Hopper."),
        *_over("ppo", "ppo-kx", ENVS, above, "PPO with K times the epochs falls below PPO."),
    ]


def _depth(name: str, env: str, low: int, where: str) -> list[Claim]:
    """Epochs on one task; `low` is the depth from which the alignment is said to rise."""

    def parts(column: str, *depths: int) -> list[Part]:
        measure = DEPTH_COLUMNS[column]
        return [Part(f"E = {e}", setting(name, "ppo", e), measure) for e in depths]

    growth = [
        part._replace(said=f"{column} at {part.said}")
        for column in ("signal", "waste")
        for part in parts(column, 10, 40)
    ]
    checks = (
        (
            "Return against depth",
            "PPO's return at E = 40 is below that at E = 10.",
            check(name, env, parts("return", 10, 40), above),
        ),
        (
            "Waste against depth",
            "Waste is larger at E = 40 than at E = 2.",
            check(name, env, parts("waste", 40, 2), above),
        ),
        (
            "Signal against waste",
            "Signal levels off and waste does not: from E = 10 to E = 40 waste grows by the larger "
            "factor.",
            check(name, env, growth, lambda found: outgrows(found, ("signal", "waste"))),
        ),
        (
            "Alignment against depth",
            f"Alignment rises and falls again: at E = 10 it is above that at E = {low} and E = 40.",
            check(name, env, parts("alignment", low, 10, 40), peak),
        ),
    )
    return [
        Claim(f"{title} on {task(env)}", said, where, (name,), verdict)
        for title, said, verdict in checks
    ]


def _ratio(algo: str, env: str, sign: int, said: str) -> Claim:
    """Waste of the consensus over its experts', beside 1."""
    parts = [
        Part("last update", Variant(algo), WASTE_LAST["ratio"]),
        Part("over the run", Variant(algo), WASTE["ratio"]),
    ]
    verb = "amplifies" if sign > 0 else "reduces"
    return Claim(
        f"{NAMES[algo]} {verb} waste on {task(env)}",
        f"{said} Judged by the last update, as in the paper.",
        "Section 5.3, Table 6",
        ("waste",),
        check("waste", env, parts, lambda found: past(found, 1.0, sign)),
    )


def _waste() -> list[Claim]:
    averaged = "Averaging wastes less than its experts do."
    small = "On the small tasks the pool wastes more than its experts do."
    large = "On the large tasks the pool wastes less than its experts do."
    return [
        *(_ratio("capo-avg", env, -1, averaged) for env in EXPERIMENTS["waste"].envs),
        *(_ratio("capo", env, 1, small) for env in (HOPPER, CHEETAH, WALKER)),
        *(_ratio("capo", env, -1, large) for env in (ANT, HUMANOID)),
    ]


def _correlation(when: str, columns: dict[str, Measure]) -> list[Claim]:
    parts = [
        Part(f"ρ of {name}", Variant("capo-avg"), columns[f"rho_{name}"])
        for name in ("signal", "waste")
    ]
    return [
        Claim(
            f"Signals against wastes on {task(env)}",
            f"The experts' signals are more alike than their wastes, {when}.",
            "Section 5.3, Table 5",
            ("correlation",),
            check("correlation", env, parts, above),
        )
        for env in EXPERIMENTS["correlation"].envs
    ]


def _width() -> list[Claim]:
    return [
        Claim(
            f"Width of {NAMES[algo]} on {task(env)}",
            "More experts do no harm. It holds if K = 16 is not a quarter below K = 2 or K = 4, by "
            "2 errors, and does not hold if it is below one of them by 2 errors.",
            "Section 5.4, Table 9",
            ("width",),
            check(
                "width",
                env,
                [Part(f"K = {k}", setting("width", algo, k), RETURN) for k in (2, 4, 16)],
                no_worse,
            ),
        )
        for algo in WIDE
        for env in EXPERIMENTS["width"].envs
    ]


def _robust(name: str, what: str, where: str) -> list[Claim]:
    """CAPO's spread over the values of a setting is smaller than PPO's."""
    algos = ("capo", "ppo")
    parts = [Part(v.label, v, RETURN) for algo in algos for v in swept(name, algo)]
    return [
        Claim(
            f"Spread over the {what} on {task(env)}",
            f"CAPO's return depends less on the {what} than PPO's: (best − worst)/mean over its "
            "values is smaller.",
            f"Section 5.4, {where}",
            (name,),
            check(name, env, parts, lambda found: steadier(found, algos)),
        )
        for env in EXPERIMENTS[name].envs
    ]


def _secondary(name: str, what: str, where: str) -> list[Claim]:
    """The return depends little on a setting."""
    return [
        Claim(
            f"{what} of {NAMES[algo]} on {task(env)}",
            f"{what} matters little. {SMALL}",
            f"Section 5.4, {where}",
            (name,),
            check(name, env, [Part(v.setting, v, RETURN) for v in swept(name, algo)], little),
        )
        for algo in WIDE
        for env in EXPERIMENTS[name].envs
    ]


def _overhead(algo: str) -> list[Claim]:
    """No slower, over PPO, than the paper's slowest task."""
    bound = max(look_up("wall_clock", "ratio", method(algo)).values())
    parts = [Part(each, Variant(each), SECONDS_RATIO) for each in (algo, "ppo")]
    return [
        Claim(
            f"Time of {NAMES[algo]} on {task(env)}",
            f"{NAMES[algo]} takes at most {bound:.2f} times PPO's time, the most that it takes on "
            "any task of the paper.",
            "Section 5.2, Table 7",
            ("wall-clock",),
            check("wall-clock", env, parts, lambda found: past(found, bound, -1)),
        )
        for env in EXPERIMENTS["wall-clock"].envs
    ]


def _theorem(_: Selection, results: Results) -> Verdict:
    """Counted over all generations with several experts; here nothing is left to chance."""
    wide = [run for run in results.values() if run.totals.get(GENERATIONS)]
    if not wide:
        return Verdict(NOT_RUN, "")
    merged = [run for run in wide if run.algo in WIDE]
    picked = [run for run in wide if run.algo not in WIDE]
    said = [f"broken by the pool in {_share(wide, 'q_violations')} generations ({len(wide)} runs)"]
    said += [f"by the network made of it in {_share(merged, 'violations')}"] if merged else []
    shortened = sum(run.totals.get("shortened_violations", 0) for run in merged)
    every = shortened == sum(run.totals.get("violations", 0) for run in merged)
    many = "all" if every else f"{shortened:.0f}"
    said += [f"{many} of them where the line search shortened the step"] * (shortened > 0)
    said += [f"by the expert of Best-of-K in {_share(picked, 'violations')}"] if picked else []
    broken = any(run.totals.get("q_violations") for run in wide)
    return Verdict(FAILS if broken else HOLDS, ", ".join(said))


def _share(runs: Sequence[Summary], key: str) -> str:
    """7 of 219."""
    return " of ".join(
        f"{sum(run.totals.get(k, 0) for run in runs):.0f}" for k in (key, GENERATIONS)
    )


CLAIMS: tuple[Claim, ...] = (
    *_main(),
    *_depth("depth", HOPPER, 2, "Section 2.2, Table 1"),
    *_depth("fisher-epochs", CHEETAH, 4, "Section 5.3, Figure 4"),
    *_correlation("in the last update", AGREEMENT_LAST),
    *_correlation("over the run", AGREEMENT),
    *_waste(),
    Claim(
        "Theorem 1",
        "The analytic pool is never worse than its mean expert: in KL, and in surrogate less KL.",
        "Section 4",
        tuple(
            name for name, each in EXPERIMENTS.items() if any(v.algo in WIDE for v in each.variants)
        ),
        _theorem,
    ),
    *_overhead("capo-avg"),
    *_overhead("capo"),
    *_secondary("carry", "The carry", "Table 8"),
    *_width(),
    *_robust("clip", "clip threshold", "Table 10"),
    *_robust("target-kl", "target KL", "Table 11"),
    *_secondary("warmup", "The warmup", "Table 12"),
)


def claims_of(names: Sequence[str]) -> dict[str, list[Claim]]:
    """The claims to show with each of some experiments, each claim once."""
    found: dict[str, list[Claim]] = {name: [] for name in names}
    for claim in CLAIMS:
        place = next((name for name in claim.experiments if name in found), None)
        if place is not None:
            found[place].append(claim)
    return found
