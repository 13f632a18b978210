"""What one change brings: the difference of two variants, seed by seed."""

import math

from capo.paper.design import Contrast, Experiment, Published
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.tables import Entry, Results, Table, apart, summaries_of

TITLE = "What a change brings, seed by seed"


def effects(experiment: Experiment, chosen: Selection, results: Results) -> Table | None:
    """The experiment's first measure with a change less without it; None if nothing is compared.

    Two runs with one seed begin with the same network and the same environments, so that much of
    what luck does to both is not in their difference.
    """
    variants, envs = variants_of(experiment, chosen), envs_of(experiment, chosen)
    found = [each for each in experiment.contrasts if {each.after, each.before} <= {*variants}]
    if not found or not envs:
        return None
    named = any(each.name for each in found)
    rows = {each: (each.name, _said(each)) if named else (_said(each),) for each in found}
    entries = {
        (row, env_id): _entry(experiment, each, env_id, chosen, results)
        for each, row in rows.items()
        for env_id in envs
    }
    corner = ("change", "difference") if named else ("difference",)
    return Table(TITLE, corner, list(rows.values()), list(envs), entries)


def _said(each: Contrast) -> str:
    return f"{each.after.marked} − {each.before.marked}"


def _entry(
    experiment: Experiment, each: Contrast, env_id: str, chosen: Selection, results: Results
) -> Entry:
    """x_s − y_s for the seeds s that both have, and the difference of the paper's means."""
    with_it, without = (
        {run.seed: run for run in summaries_of(experiment, env_id, variant, chosen, results)}
        for variant in (each.after, each.before)
    )
    seeds = [
        seed
        for seed, run in with_it.items()
        if seed in without and run.config["total_steps"] == without[seed].config["total_steps"]
    ]
    measure = experiment.layouts[0].measures[0]
    gaps = (measure.of(with_it[seed]) - measure.of(without[seed]) for seed in seeds)
    values = tuple(gap for gap in gaps if not math.isnan(gap))
    after, before = (
        experiment.published(env_id, variant, measure) for variant in (each.after, each.before)
    )
    stated = None
    if after and before:
        stated = Published(after.mean - before.mean, math.hypot(after.error, before.error))
    why = apart(env_id, [with_it[seed] for seed in seeds], measure)
    return Entry(values, stated, measure.digits, why)
