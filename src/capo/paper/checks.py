"""What a claim is, and checks made of a rule and some cells of an experiment's tables."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from capo.format import compact
from capo.paper.design import Measure, Variant
from capo.paper.experiments import EXPERIMENTS
from capo.paper.selection import Selection, envs_of, variants_of
from capo.paper.summaries import Summary
from capo.paper.tables import Entry, Results, apart, summaries_of, values_of
from capo.paper.verdicts import OPEN, Entries, Verdict, too_few

Check = Callable[[Selection, Results], Verdict]
Rule = Callable[[Entries], Verdict]


class Claim(NamedTuple):
    """Something that the paper says of its runs, to be asked of ours."""

    name: str
    said: str
    """The claim in a sentence; those of several tasks share it."""
    where: str
    """Where the paper says so."""
    experiments: tuple[str, ...]
    """Where it is shown: with the first of these that is on the page."""
    check: Check


class Part(NamedTuple):
    """A number of an experiment, under the name that it has in a verdict."""

    said: str
    variant: Variant
    measure: Measure


def check(name: str, env: str, parts: Sequence[Part], rule: Rule) -> Check:
    """A rule about some numbers of an experiment on one task, all of runs of one length."""

    def verdict(chosen: Selection, results: Results) -> Verdict:
        found = {part.said: _entry(name, env, part, chosen, results) for part in parts}
        runs = _runs(name, env, parts, chosen, results)
        lengths = sorted({run.config["total_steps"] for run in runs})
        if len(lengths) > 1 and not too_few(list(found.values())):
            said = " and ".join(map(compact, lengths))
            return Verdict(OPEN, f"runs of {said} steps cannot be compared")
        word, numbers = rule(found)
        return Verdict(word, "; ".join(filter(None, [apart(env, runs, parts[0].measure), numbers])))

    return verdict


def swept(name: str, algo: str) -> list[Variant]:
    """A method's variants in an experiment."""
    return [v for v in EXPERIMENTS[name].variants if v.algo == algo]


def setting(name: str, algo: str, value: object) -> Variant:
    """The variant that has this value of what its experiment sweeps."""
    return next(v for v in swept(name, algo) if v.changes[0][1] == value)


def _entry(name: str, env: str, part: Part, chosen: Selection, results: Results) -> Entry:
    """A cell of an experiment's tables, whichever of them has it; empty if it was not chosen."""
    experiment, (_, variant, measure) = EXPERIMENTS[name], part
    is_chosen = env in envs_of(experiment, chosen) and variant in variants_of(experiment, chosen)
    found = values_of(experiment, env, variant, measure, chosen, results) if is_chosen else ()
    return Entry(found, experiment.published(env, variant, measure), measure.digits)


def _runs(
    name: str, env: str, parts: Sequence[Part], chosen: Selection, results: Results
) -> list[Summary]:
    """All that the numbers are of."""
    return [
        run
        for part in parts
        for run in summaries_of(EXPERIMENTS[name], env, part.variant, chosen, results)
    ]
