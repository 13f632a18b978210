"""Made-up summaries of runs, as `capo reproduce` stores them."""

import numpy as np

from capo.paper.experiments import DEPTHS, EXPERIMENTS
from capo.paper.published import mean_at, method_key, task_name
from capo.paper.tasks import HOPPER, PAPER
from capo.sweeps.design import Variant
from capo.sweeps.selection import planned_run
from capo.sweeps.summaries import Summary

LOOK = {
    "fisher/signal": 0.005,
    "fisher/waste": 0.016,
    "fisher/total": 0.021,
    "fisher/alignment": 0.24,
    "fisher/cosine": 0.49,
}
SEVERAL_EXPERTS = {
    "consensus/rho_signal": 0.999,
    "consensus/rho_waste": 0.95,
    "consensus/rho_total": 0.96,
    "consensus/signal_kept": 0.999,
    "consensus/expert_waste": 0.017,
    "consensus/waste_ratio": 0.95,
    "consensus/waste_ratio_predicted": 0.96,
    "consensus/q_waste_ratio": 0.95,
    "consensus/signal_spread": 0.02,
}


def summary(run, score=100.0, curve=None, seconds=60.0, **look):
    """A finished run with a linear learning curve and constant diagnostics."""
    steps = np.linspace(0.05, 1.0, 20) * run.config.total_steps
    wide = run.config.algo in ("capo", "capo-avg", "best-of-k")
    split = {**LOOK, **(SEVERAL_EXPERTS if wide else {}), **look}
    totals = {
        "frames": float(run.config.total_steps),
        "generations": 244.0,
        "gradient_steps": 78_080.0 * (3.7 if wide else 1.0),
        "parameters": 5_708.0,
        "seconds": seconds,
        "wide_generations": 220.0 if wide else 0.0,
        "q_violations": 0.0,
        "violations": 3.0 if wide else 0.0,
    }
    return Summary(
        run.name,
        run.config.to_dict(),
        {"mean": float(score), "standard_error": 1.0, "episodes": 20},
        curve
        or {
            "steps": [float(x) for x in steps],
            "return": [float(x) for x in score * steps / steps[-1]],
        },
        [{"steps": float(at), "warmup": 0.0, **split} for at in steps[::2]],
        totals,
        {"versions": {"capo": "0.1.0"}, "commit": "0123abc", "cores": 1, "date": "2026-01-02"},
    )


def add(results, env_id, variant, scores, selection=None, looks=None, first=1, **more):
    """Adds seeds from `first` on with these scores; `looks` has the diagnostics of each seed."""
    for index, score in enumerate(scores):
        run = planned_run(env_id, variant, first + index, selection or PAPER)
        look = looks[index] if looks else {}
        results[run.key] = summary(run, score, **more, **look)
    return results


def add_pair(results, env, better, worse, algos=("capo", "ppo")):
    """Adds runs of two methods with these scores."""
    for algo, scores in zip(algos, (better, worse), strict=True):
        add(results, env, Variant(algo), scores)
    return results


def depth_runs(returns, signals, wastes):
    """Three seeds of PPO on Hopper with 2, 10 and 40 epochs."""
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


def invented(names, selection=None, most=3, left_out=()):
    """Random runs of whole experiments near the paper's numbers, except on the tasks left out."""
    selection, rng, results = selection or PAPER, np.random.default_rng(0), {}
    for name in names:
        experiment = EXPERIMENTS[name]
        for env_id in selection.envs_of(experiment):
            for variant in selection.variants_of(experiment):
                if env_id in left_out:
                    continue
                for seed in list(selection.seeds_of(experiment))[:most]:
                    run = planned_run(env_id, variant, seed, selection)
                    results.setdefault(run.key, _invented(rng, run, variant))
    return results


def _invented(rng, run, variant):
    env, config = task_name(run.config.env_id), run.config
    main = mean_at("main", "rows", method_key(variant.algo), env)
    score = (main.mean if main else 1000.0) * float(np.exp(0.2 * rng.standard_normal()))
    score *= min(1.0, config.epochs / 10) ** 0.5 * min(1.0, 20 / config.epochs)
    steps = np.linspace(0.01, 1.0, 100)
    noise = np.cumsum(rng.standard_normal(100)) * 0.01
    rise = score * np.clip(1 - np.exp(-3 * steps) + noise, 0, None)
    signal = 0.0016 * config.epochs**0.5 * float(np.exp(0.2 * rng.standard_normal()))
    waste = 0.0016 * config.epochs**1.05 * float(np.exp(0.2 * rng.standard_normal()))
    ratio = float(np.exp(0.1 * rng.standard_normal())) * (5.0 if variant.algo == "capo" else 0.93)
    look = {
        "fisher/signal": signal,
        "fisher/waste": waste,
        "fisher/total": signal + waste,
        "fisher/alignment": signal / (signal + waste),
        "fisher/cosine": (signal / (signal + waste)) ** 0.5,
    }
    if variant.algo in ("capo", "capo-avg"):
        look["consensus/waste_ratio"] = ratio
        look["consensus/rho_waste"] = 0.95 + 0.01 * float(rng.standard_normal())
    curve = {
        "steps": [float(x) for x in steps * config.total_steps],
        "return": [float(x) for x in rise],
    }
    seconds = float(900 * (1.4 if len(look) > 5 else 1.0) * np.exp(0.05 * rng.standard_normal()))
    return summary(run, score, curve, seconds, **look)
