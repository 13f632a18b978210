"""What there is to show of an experiment, made once for the page and the files beside it."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from capo.paper.checks import Claim
from capo.paper.claims import claims_of
from capo.paper.design import Experiment
from capo.paper.effects import effects
from capo.paper.experiments import EXPERIMENTS
from capo.paper.figures import FIGURES
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.summaries import Summary
from capo.paper.tables import Progress, Results, Table, progress, summaries_of, table
from capo.paper.verdicts import Verdict

DPI = 110


class Shown(NamedTuple):
    """An experiment with all that is made from its runs."""

    experiment: Experiment
    progress: Progress
    tables: list[Table]
    picture: bytes | None
    """A PNG."""
    verdicts: list[tuple[Claim, Verdict]]

    def grouped(self, without: str) -> dict[tuple[str, str], list[tuple[Claim, Verdict]]]:
        """The verdicts by what was said and where, those with one word left out."""
        found: dict[tuple[str, str], list[tuple[Claim, Verdict]]] = {}
        for claim, verdict in self.verdicts:
            if verdict.word != without:
                found.setdefault((claim.said, claim.where), []).append((claim, verdict))
        return found


def gather(names: Sequence[str], chosen: Selection, results: Results) -> list[Shown]:
    """Of each of the experiments."""
    claims = claims_of(names)
    shown = []
    for name in names:
        experiment = EXPERIMENTS[name]
        verdicts = [(claim, claim.check(chosen, results)) for claim in claims[name]]
        state = progress(experiment, chosen, results)
        tables = tables_of(experiment, chosen, results)
        picture = _picture(experiment, chosen, results)
        shown.append(Shown(experiment, state, tables, picture, verdicts))
    return shown


def tables_of(experiment: Experiment, chosen: Selection, results: Results) -> list[Table]:
    """All tables of an experiment that are about what was chosen."""
    made = [table(experiment, layout, chosen, results) for layout in experiment.layouts]
    return [each for each in (*made, effects(experiment, chosen, results)) if each is not None]


def runs_shown(names: Sequence[str], chosen: Selection, results: Results) -> list[Summary]:
    """The runs that anything of it is made from, each once."""
    found = {
        run.name: run
        for experiment in (EXPERIMENTS[name] for name in names)
        for env_id in envs_of(experiment, chosen)
        for variant in variants_of(experiment, chosen)
        for run in summaries_of(experiment, env_id, variant, chosen, results)
    }
    return list(found.values())


def _picture(experiment: Experiment, chosen: Selection, results: Results) -> bytes | None:
    drawn = FIGURES[experiment.figure](experiment, chosen, results) if experiment.figure else None
    if drawn is None:
        return None
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
