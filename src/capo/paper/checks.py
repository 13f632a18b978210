"""Claims of the paper, and checks that apply a rule to numbers of an experiment."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from capo.paper.experiments import EXPERIMENTS
from capo.paper.verdicts import UNDECIDED, Entries, Verdict, too_few
from capo.report.format import compact
from capo.sweeps.design import Measure, Variant
from capo.sweeps.results import Results
from capo.sweeps.tables import Entry

Check = Callable[[Results], Verdict]
Rule = Callable[[Entries], Verdict]


class Claim(NamedTuple):
    """A statement of the paper about its runs, with a check by our runs."""

    name: str
    statement: str
    """The claim in a sentence, without the task."""
    where: str
    """Place in the paper."""
    experiments: tuple[str, ...]
    """Experiments to show it with: the first one that is on the page."""
    check: Check


class Quantity(NamedTuple):
    """A number of an experiment, with its name in a verdict."""

    name: str
    variant: Variant
    measure: Measure


def make_check(name: str, env: str, quantities: Sequence[Quantity], rule: Rule) -> Check:
    """A rule about quantities of one experiment on one task, from runs of equal length."""

    def check(results: Results) -> Verdict:
        entries = {each.name: _entry(name, env, each, results) for each in quantities}
        variants = [each.variant for each in quantities]
        runs = [run for variant in variants for run in results.of(env, variant).values()]
        lengths = sorted({run.config["total_steps"] for run in runs})
        if len(lengths) > 1 and not too_few(list(entries.values())):
            listed = " and ".join(map(compact, lengths))
            return Verdict(UNDECIDED, f"runs of {listed} steps cannot be compared")
        word, numbers = rule(entries)
        reason = results.mismatch(EXPERIMENTS[name], env, variants, quantities[0].measure)
        return Verdict(word, "; ".join(filter(None, [reason, numbers])))

    return check


def method_variants(name: str, algo: str) -> list[Variant]:
    """The variants of a method in an experiment."""
    return [v for v in EXPERIMENTS[name].variants if v.algo == algo]


def variant_with(name: str, algo: str, value: object) -> Variant:
    """The variant of a method that has this value of the swept setting."""
    return next(v for v in method_variants(name, algo) if v.changes[0][1] == value)


def _entry(name: str, env: str, quantity: Quantity, results: Results) -> Entry:
    """The cell of an experiment's tables; empty if it was not selected."""
    experiment, (_, variant, measure) = EXPERIMENTS[name], quantity
    selected = (env, variant) in results.cells(experiment)
    return Entry(
        values=results.values(env, variant, measure) if selected else (),
        published=experiment.published(env, variant, measure),
        digits=measure.digits,
    )
