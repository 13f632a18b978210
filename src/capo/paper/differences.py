"""Paired differences: the effect of one change, seed by seed."""

import math

from capo.paper.design import Contrast, Experiment, Published
from capo.paper.matching import Results, find_runs
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.tables import Entry, Table, paper_mismatch

TITLE = "Effect of each change, seed by seed"


def paired_differences(
    experiment: Experiment, selection: Selection, results: Results
) -> Table | None:
    """A table of the experiment's contrasts in its first measure; None if there are none.

    Two runs with one seed start with the same network and environments, so their difference has
    less noise than the difference of two means.
    """
    variants, envs = variants_of(experiment, selection), envs_of(experiment, selection)
    contrasts = [each for each in experiment.contrasts if {each.after, each.before} <= {*variants}]
    if not contrasts or not envs:
        return None
    named = any(each.name for each in contrasts)
    rows = {each: (each.name, _label(each)) if named else (_label(each),) for each in contrasts}
    entries = {
        (row, env_id): _entry(experiment, each, env_id, selection, results)
        for each, row in rows.items()
        for env_id in envs
    }
    corner = ("change", "difference") if named else ("difference",)
    return Table(TITLE, corner, list(rows.values()), list(envs), entries)


def _label(contrast: Contrast) -> str:
    return f"{contrast.after.marked} − {contrast.before.marked}"


def _entry(
    experiment: Experiment, contrast: Contrast, env_id: str, selection: Selection, results: Results
) -> Entry:
    """x_s − y_s for the seeds s of both variants, and the difference of the published means."""
    variants = (contrast.after, contrast.before)
    after, before = (
        {
            (key.seed, key.total_steps): run
            for key, run in find_runs(env_id, variant, selection, results).items()
        }
        for variant in variants
    )
    pairs = [(run, before[key]) for key, run in after.items() if key in before]
    measure = experiment.layouts[0].measures[0]
    differences = (measure.of(x) - measure.of(y) for x, y in pairs)
    values = tuple(each for each in differences if not math.isnan(each))
    published = None
    x, y = (experiment.published(env_id, variant, measure) for variant in variants)
    if x and y:
        published = Published(x.mean - y.mean, math.hypot(x.error, y.error))
    reason = paper_mismatch(env_id, [run for run, _ in pairs], measure)
    return Entry(values, published, measure.digits, reason)
