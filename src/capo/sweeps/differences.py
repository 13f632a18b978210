"""Paired differences: the effect of one change, seed by seed."""

import math

from capo.sweeps.design import Contrast, Experiment, Published
from capo.sweeps.results import Results
from capo.sweeps.tables import Entry, Table

TITLE = "Effect of each change, seed by seed"


def paired_differences(experiment: Experiment, results: Results) -> Table | None:
    """A table of the experiment's contrasts in its first measure; None if there are none.

    Two runs with one seed start with the same network and environments, so their difference has
    less noise than the difference of two means.
    """
    variants, envs = results.variants(experiment), results.envs(experiment)
    contrasts = [each for each in experiment.contrasts if {each.after, each.before} <= {*variants}]
    if not contrasts or not envs:
        return None
    named = any(each.name for each in contrasts)
    rows = {each: (each.name, _label(each)) if named else (_label(each),) for each in contrasts}
    entries = {
        (row, env_id): _entry(experiment, each, env_id, results)
        for each, row in rows.items()
        for env_id in envs
    }
    corner = ("change", "difference") if named else ("difference",)
    return Table(TITLE, corner, list(rows.values()), list(envs), entries)


def _label(contrast: Contrast) -> str:
    return f"{contrast.after.marked} − {contrast.before.marked}"


def _entry(experiment: Experiment, contrast: Contrast, env_id: str, results: Results) -> Entry:
    """x_s − y_s for the seeds s of both variants, and the difference of the published means."""
    variants = (contrast.after, contrast.before)
    measure = experiment.layouts[0].measures[0]
    after, before = (
        {
            (key.seed, key.total_steps): measure.of(run)
            for key, run in results.of(env_id, variant).items()
        }
        for variant in variants
    )
    differences = (x - before[key] for key, x in after.items() if key in before)
    values = tuple(each for each in differences if not math.isnan(each))
    published = None
    x, y = (experiment.published(env_id, variant, measure) for variant in variants)
    if x and y:
        published = Published(mean=x.mean - y.mean, error=math.hypot(x.error, y.error))
    reason = results.mismatch(experiment, env_id, variants[:1], measure) if values else ""
    return Entry(values=values, published=published, digits=measure.digits, mismatch=reason)
