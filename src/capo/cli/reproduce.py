"""capo reproduce."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from capo.config import STEPS
from capo.errors import check_least

OUT = Path("reproduce")


def reproduce_paper(
    names: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="NAME…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    tier: Literal["smoke", "short", "full"] = "full",
    seeds: int | None = None,
    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV…")] = (),
    algos: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ALGO…")] = (),
    steps: Annotated[int | None, STEPS] = None,
    preset: Literal["default", "corrected", "paper"] = "corrected",
    jobs: int | None = None,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = OUT,
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    write_only: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Run the paper's experiments and compare them with its numbers.

    Example: capo reproduce main --envs Hopper-v4 --seeds 3

    Args:
        names: main, curves, compute, depth, fisher-epochs, correlation, waste, wall-clock, carry,
            width, clip, target-kl, warmup, attribution; or all of these. Also twins (experts
            on shuffles), wider and wider-best (on the last batches), proof and proof-humanoid
            (the default on fresh seeds), with PPO alike.
        tier: full: the paper's runs; short: 2 seeds of 200k steps; smoke: tiny runs, as a test.
        seeds: Seeds of each variant; None: the paper's 8, 5 or 3.
        envs: Only these tasks.
        algos: Only these methods.
        steps: Environment steps of a run; None: the paper's 1M, and 4M on Humanoid.
        preset: paper: the closest reading of the paper; corrected: the paper's experts with an
            accurate distillation and bootstrapped time limits; default: our recommendation.
        jobs: Simultaneous runs, each with its share of the cores; None: one for each core.
        out: Output folder; runs that are finished there are not trained again.
        dry_run: Only print the runs and their estimated time.
        write_only: Only write tables and figures, from the finished runs.
    """
    from capo.paper.reproduction import reproduce, request
    from capo.sweeps.launchers import Local
    from capo.sweeps.store import Store

    asked = request(names, tier, seeds, envs, algos, steps, preset)
    if jobs is not None:
        check_least("jobs", jobs)
    store = Store(out)
    store.check()
    return reproduce(asked, store, Local(jobs), dry_run, write_only)
