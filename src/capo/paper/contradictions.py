"""Contradictions between numbers that the paper states."""

import itertools
import math

from capo.paper.experiments import ALGOS
from capo.paper.published import look_up, mean_at, method_key, task_name
from capo.paper.tasks import ENVS
from capo.sweeps.design import Published

DEFAULTS = {
    "Table 8, incumbent": ("carry", "incumbent"),
    "Table 9, K = 4": ("width", "4"),
    "Table 10, ε = 0.2": ("clip", "0.2"),
    "Table 11, KL = 0": ("target_kl", "0"),
    "Table 12, 10%": ("warmup", "0.1"),
}
"""Cells of the ablations with the settings of the main table."""
LIMIT = 3.0
"""Combined standard errors beyond which two means of equal settings contradict each other.

More than 2, because there are many pairs.
"""
# Numbers from sentences of the paper, which no table states.
HOPPER_PPO_IN_TEXT = 2463
ANT_IN_TEXT, ANT_IN_CAPTION = 9, 7
HUMANOID_REDUCTION_IN_TEXT = 46
WIDTH = 4


def same_settings(algo: str, env: str) -> dict[str, Published]:
    """All final returns of one method on one task at the default settings, by their place."""
    places = {"Table 4": mean_at("main", "rows", method_key(algo), task_name(env))}
    for where, (table, value) in DEFAULTS.items():
        places[where] = mean_at(table, "rows", task_name(env), method_key(algo), value)
    if (algo, task_name(env)) == ("ppo", "Hopper"):
        row = _depth(10)
        places["Table 1, E = 10"] = Published(row["return"], row["return_se"])
    return {where: stated for where, stated in places.items() if stated is not None}


def furthest(stated: dict[str, Published]) -> float:
    """The largest difference of two means, in combined standard errors."""
    pairs = itertools.combinations(stated.values(), 2)
    return max((abs(a.mean - b.mean) / math.hypot(a.error, b.error) for a, b in pairs), default=0)


def _depth(epochs: int) -> dict[str, float]:
    rows = look_up("depth_hopper", "rows")
    row = next(row for row in rows if row[0] == epochs)
    return dict(zip(look_up("depth_hopper", "columns"), row, strict=True))


def _settings() -> list[str]:
    """Methods whose returns at equal settings differ."""
    lines = []
    for algo, env in itertools.product(ALGOS, ENVS):
        stated = same_settings(algo, env)
        if furthest(stated) > LIMIT:
            listed = ", ".join(f"{x.mean:.0f} ± {x.error:.0f} ({at})" for at, x in stated.items())
            lines.append(f"{algo} on {task_name(env)} at the same settings: {listed}.")
    stopped = mean_at("target_kl", "rows", "Ant", "ppo", "0.02")
    main = mean_at("main", "rows", "ppo", "Ant")
    if stopped and main and stopped.mean == main.mean:
        lines.append(
            f"ppo on Ant, {main.mean:.0f} in Table 4, is the return that Table 11 states for "
            "stopping early at a KL of 0.02, not for the defaults, which do not stop."
        )
    return lines


def _hopper() -> str:
    stated = same_settings("ppo", "Hopper-v4")
    listed = ", ".join(f"{each.mean:.0f} ({where})" for where, each in stated.items())
    return f"ppo on Hopper: {listed}, and {HOPPER_PPO_IN_TEXT} in the text of Section 5.2."


def _width() -> list[str]:
    rows = look_up("width", "rows")
    falls = []
    for env, row in rows.items():
        means = [each["mean"] for each in row["capo"].values()]
        if means != sorted(means):
            falls.append(f"{env} {' → '.join(map(str, means))}")
    average = [each["mean"] for each in rows["HalfCheetah"]["capo_avg"].values()]
    return [
        "Section 5.4 states that CAPO's return rises with every step in K; in Table 9 it does not "
        f"on {len(falls)} of {len(rows)} tasks: {', '.join(falls)} for K = 2, 4, 8, 16.",
        "More experts are stated to do no harm; in Table 9 CAPO-Avg on HalfCheetah falls from "
        f"{average[2]} at K = 8 to {average[3]} at K = 16, below its {average[0]} at K = 2.",
    ]


def _clip() -> list[str]:
    ppo, capo = (look_up("clip", "rows", "Walker2d", algo) for algo in ("ppo", "capo"))
    ranges = [
        max(each["mean"] for each in row.values()) / min(each["mean"] for each in row.values())
        for row in (ppo, capo)
    ]
    return [
        "PPO is stated to lose by any clip threshold other than 0.2 on Walker2d; in Table 10 it "
        f"has {ppo['0.1']['mean']} at 0.1 and {ppo['0.2']['mean']} at 0.2.",
        f"CAPO is stated to tolerate a wider range of clip thresholds; on Walker2d its best is "
        f"{ranges[1]:.1f} times its worst in Table 10, and PPO's {ranges[0]:.1f} times.",
    ]


def _warmup() -> str:
    rows = look_up("warmup", "rows")
    cells = [
        (row["capo"][value]["mean"], row["capo_avg"][value]["mean"])
        for row in rows.values()
        for value in row["capo"]
    ]
    below = sum(capo < average for capo, average in cells)
    return (
        "CAPO is stated to be above CAPO-Avg at every warmup on every task; in Table 12 it is "
        f"below in {below} of {len(cells)} cells."
    )


def _baselines() -> list[str]:
    ppo, deep, averaged = (look_up("main", "rows", a) for a in ("ppo", "ppo_kx", "ppo_swa"))
    ratio = ppo["Ant"]["mean"] / deep["Ant"]["mean"]
    return [
        f"PPO-K× on Ant is {ANT_IN_TEXT} times below PPO in Section 5.2 and {ANT_IN_CAPTION} times "
        f"below it under Figure 3; Table 4 gives {ratio:.1f}.",
        "PPO-SWA is stated to be worse than PPO; on Humanoid Table 4 has "
        f"{averaged['Humanoid']['mean']} against {ppo['Humanoid']['mean']}.",
    ]


def _waste() -> list[str]:
    rows = look_up("waste_reduction", "rows")
    ratio = {env: row["capo_avg"][2] for env, row in rows.items()}
    rho = {env: row[1] for env, row in look_up("correlation", "rows").items()}
    predicted = {env: 1 / WIDTH + (1 - 1 / WIDTH) * rho[env] for env in ratio}
    apart = {env: abs(predicted[env] - ratio[env]) for env in ratio}
    worst = max(apart, key=lambda env: apart[env])
    rest = math.ceil(1e3 * max(gap for env, gap in apart.items() if env != worst)) / 1e3
    sizes = look_up("environments", "rows")
    reductions = ", ".join(f"{env} ({sizes[env][0]}) {1 - x:.1%}" for env, x in ratio.items())
    return [
        f"LogOP is stated to cut waste by {HUMANOID_REDUCTION_IN_TEXT}% on Humanoid; Table 6 has a "
        f"ratio of {rows['Humanoid']['capo'][2]}, a cut by {1 - rows['Humanoid']['capo'][2]:.0%}.",
        "Averaging is stated to cut more waste on larger tasks; by the size of the observation "
        f"it is {reductions} in Table 6.",
        "For wastes of equal size 1/K + (1 − 1/K) ρ of Table 5 is the ratio of Table 6. They agree "
        f"within {rest}, except on {worst}: {predicted[worst]:.3f} and {ratio[worst]}.",
    ]


def _split() -> list[str]:
    shallow, usual, deep = (_depth(epochs) for epochs in (2, 10, 40))
    signal = [row["signal"] for row in (shallow, usual, deep)]
    return [
        "Signal is stated to level off within a few epochs; in Table 1 it is "
        f"{' → '.join(map(str, signal))} at E = 2, 10, 40.",
        "The learning rate is stated to fall to zero, which makes the last update almost zero; "
        f"Table 1 is about that update and has c² + ‖ε‖² = {usual['total'] / 1e3:.4f} at E = 10.",
        "By Proposition 1 the KL is ½c² + ½‖ε‖²; Table 1 calls c² + ‖ε‖² the total KL.",
    ]


CONTRADICTIONS: tuple[str, ...] = (
    *_settings(),
    _hopper(),
    *_baselines(),
    *_width(),
    *_clip(),
    _warmup(),
    *_waste(),
    *_split(),
)
