"""Claims of the paper about final returns and wall-clock time."""

from collections.abc import Sequence

from capo.paper.checks import Claim, Quantity, Rule, make_check, method_variants, variant_with
from capo.paper.experiments import EXPERIMENTS, SEVERAL_EXPERTS
from capo.paper.measures import SECONDS_RATIO
from capo.paper.published import METHOD_NAMES, look_up, method_key, task_name
from capo.paper.tasks import ENVS, HOPPER
from capo.paper.verdicts import about_equal, above, beyond, no_worse, small_spread, smaller_spread
from capo.sweeps.design import Variant
from capo.sweeps.measures import RETURN

SMALL_SPREAD = (
    "It holds if best − worst plus 2 σ is less than a quarter of the mean, and does not hold if "
    "best − worst is more than 3 σ."
)


def main_claims() -> list[Claim]:
    """Comparisons of two methods in the main table."""
    others = [env for env in ENVS if env != HOPPER]
    return [
        *_pair("capo", "ppo", others, above, "CAPO's return is above PPO's, except on Hopper."),
        *_pair(
            "capo",
            "ppo",
            [HOPPER],
            about_equal,
            "On Hopper the returns of CAPO and PPO are about equal. It holds if the difference "
            "plus 2 σ is less than a quarter of PPO's return, and does not hold if the difference "
            "is more than 2 σ.",
        ),
        *_pair("capo-avg", "ppo", [HOPPER], above, "On Hopper CAPO-Avg's return is above PPO's."),
        *_pair("capo", "trpo", others, above, "CAPO's return is above TRPO's, except on Hopper."),
        *_pair(
            "capo",
            "capo-avg",
            others,
            above,
            "CAPO's return is above CAPO-Avg's, except on Hopper.",
        ),
        *_pair("ppo", "ppo-kx", ENVS, above, "PPO with K times the epochs is below PPO."),
    ]


def _pair(better: str, worse: str, envs: Sequence[str], rule: Rule, statement: str) -> list[Claim]:
    """A claim about the final returns of two methods, for each task."""
    relation = "equal to" if rule is about_equal else "over"
    returns = [Quantity(algo, Variant(algo), RETURN) for algo in (better, worse)]
    return [
        Claim(
            f"{METHOD_NAMES[better]} {relation} {METHOD_NAMES[worse]} on {task_name(env)}",
            statement,
            "Section 5.2, Table 4",
            ("main", "curves"),
            make_check("main", env, returns, rule),
        )
        for env in envs
    ]


def width_claims() -> list[Claim]:
    """More experts do no harm."""
    return [
        Claim(
            f"Width of {METHOD_NAMES[algo]} on {task_name(env)}",
            "More experts do no harm. It holds if K = 16 is below K = 2 and K = 4 by less than a "
            "quarter, with a margin of 2 σ, and does not hold if it is more than 2 σ below one of "
            "them.",
            "Section 5.4, Table 9",
            ("width",),
            make_check(
                "width",
                env,
                [Quantity(f"K = {k}", variant_with("width", algo, k), RETURN) for k in (2, 4, 16)],
                no_worse,
            ),
        )
        for algo in SEVERAL_EXPERTS
        for env in EXPERIMENTS["width"].envs
    ]


def robustness_claims(name: str, what: str, where: str) -> list[Claim]:
    """CAPO's spread over the values of a setting is smaller than PPO's."""
    algos = ("capo", "ppo")
    returns = [Quantity(v.label, v, RETURN) for algo in algos for v in method_variants(name, algo)]
    return [
        Claim(
            f"Spread over the {what} on {task_name(env)}",
            f"CAPO's return depends less on the {what} than PPO's: (best − worst)/mean over its "
            "values is smaller.",
            f"Section 5.4, {where}",
            (name,),
            make_check(name, env, returns, lambda entries: smaller_spread(entries, algos)),
        )
        for env in EXPERIMENTS[name].envs
    ]


def small_effect_claims(name: str, what: str, where: str) -> list[Claim]:
    """The return depends little on a setting."""
    return [
        Claim(
            f"{what} of {METHOD_NAMES[algo]} on {task_name(env)}",
            f"{what} matters little. {SMALL_SPREAD}",
            f"Section 5.4, {where}",
            (name,),
            make_check(
                name,
                env,
                [Quantity(v.setting, v, RETURN) for v in method_variants(name, algo)],
                small_spread,
            ),
        )
        for algo in SEVERAL_EXPERTS
        for env in EXPERIMENTS[name].envs
    ]


def time_claims(algo: str) -> list[Claim]:
    """The time relative to PPO's is at most the largest that the paper states for any task."""
    bound = max(look_up("wall_clock", "ratio", method_key(algo)).values())
    ratios = [Quantity(each, Variant(each), SECONDS_RATIO) for each in (algo, "ppo")]
    return [
        Claim(
            f"Time of {METHOD_NAMES[algo]} on {task_name(env)}",
            f"{METHOD_NAMES[algo]} takes at most {bound:.2f} times PPO's time, the paper's largest "
            "ratio on any task.",
            "Section 5.2, Table 7",
            ("wall-clock",),
            make_check("wall-clock", env, ratios, lambda entries: beyond(entries, bound, -1)),
        )
        for env in EXPERIMENTS["wall-clock"].envs
    ]
