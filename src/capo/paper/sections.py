"""The sections of the page, top to bottom."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from capo.format import count
from capo.paper.contradictions import CONTRADICTIONS
from capo.paper.gathering import Shown
from capo.paper.tables import NOT_RUN, coded, to_html
from capo.paper.verdicts import FAILS, HOLDS, WORDS


def sections(shown: Sequence[Shown], failures: Mapping[str, str], command: str) -> str:
    """All of them; those that there is nothing for are left out."""
    parts = [
        _contents(shown),
        *map(_experiment, shown),
        _contradictions(),
        _failures(failures),
        _reading(),
        f'<section><h2>How to make this page</h2><pre class="alone">{escape(command)}</pre>'
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def _contents(shown: Sequence[Shown]) -> str:
    rows = []
    for each in shown:
        experiment = each.experiment
        counts = Counter(verdict.word for _, verdict in each.verdicts)
        tags = "".join(_tag(word, _counted(counts[word], word)) for word in WORDS if counts[word])
        name = escape(experiment.name)
        rows.append(
            f'<tr><td><a href="#{name}">{escape(experiment.title)}</a></td>'
            f'<td>{escape(experiment.where)}</td><td class="number">{each.progress}'
            f'</td><td class="counts">{tags}</td></tr>'
        )
    head = '<th>Experiment</th><th>In the paper</th><th class="number">Runs</th><th>Claims</th>'
    return (
        f'<section><h2>Contents</h2><div class="scroll"><table class="contents"><thead><tr>{head}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _experiment(each: Shown) -> str:
    experiment = each.experiment
    parts = [
        f'<section id="{escape(experiment.name)}"><h2>{escape(experiment.title)}'
        f'<span class="where">{escape(experiment.where)}, {each.progress}</span>'
        f'</h2><p class="about">{coded(experiment.about)}</p>'
    ]
    if each.picture is not None:
        data, alt = base64.b64encode(each.picture).decode(), escape(f"Figure: {experiment.title}")
        source = f"data:image/png;base64,{data}"
        parts.append(f'<div class="picture"><img alt="{alt}" src="{source}"></div>')
    for found in each.tables:
        parts.append(f'<h3>{escape(found.title)}</h3><div class="scroll">{to_html(found)}</div>')
    if not each.tables and each.picture is None:
        parts.append("<p>There is nothing to draw yet.</p>")
    return "\n".join([*parts, _claims(each), "</section>"])


def _claims(each: Shown) -> str:
    if not each.verdicts:
        return ""
    parts = ['<h3>What the paper claims</h3><div class="claims">']
    for (said, where), group in each.grouped(without=NOT_RUN).items():
        items = "".join(
            f"<li>{_tag(verdict.word, verdict.word)}<span>{escape(claim.name)}</span>"
            f'<span class="numbers">{_kept(verdict.numbers)}</span></li>'
            for claim, verdict in group
        )
        where = f'<span class="where">{escape(where)}</span>'
        parts.append(f'<p class="said">{escape(said)} {where}</p><ul class="checks">{items}</ul>')
    missing = [claim.name for claim, verdict in each.verdicts if verdict.word == NOT_RUN]
    if missing:
        said = f"Not run, or not all that it takes: {'; '.join(missing)}."
        parts.append(f'<p class="unasked">{escape(said)}</p>')
    return "".join([*parts, "</div>"])


def _counted(number: int, word: str) -> str:
    """1 holds, 2 hold."""
    several = {HOLDS: "hold", FAILS: "do not hold"}
    return f"{number} {word if number == 1 else several.get(word, word)}"


def _kept(numbers: str) -> str:
    """Without line breaks inside a number with its error."""
    return escape(numbers).replace(" ± ", "&nbsp;±&nbsp;").replace(" σ", "&nbsp;σ")


def _tag(word: str, text: str) -> str:
    return f'<span class="tag {word.replace(" ", "-")}">{escape(text)}</span>'


def _contradictions() -> str:
    return (
        "<section><h2>Where the paper contradicts itself</h2>"
        '<p class="about">A number that it states twice cannot be met twice.</p>'
        f"{_lines(CONTRADICTIONS)}</section>"
    )


def _failures(failures: Mapping[str, str]) -> str:
    if not failures:
        return ""
    lines = [f"{name}: {message}" for name, message in failures.items()]
    title = f"{count(len(lines), 'run')} failed"
    return f"<section><h2>{title}</h2>{_lines(lines)}</section>"


def _reading() -> str:
    lines = (
        "A cell has our mean over seeds ± its standard error, with the number of seeds in "
        "brackets; below it what the paper states, and the difference of the two.",
        "The difference is in σ, combined standard errors √(SE² + SE²). Up to 2 the two agree, ≈; "
        "beyond that ours is higher, ▲, or lower, ▼. Where the paper states no error, ours alone "
        "counts.",
        "A difference seed by seed is that of two runs with one seed, which begin with the same "
        "network and environments; beside it is the difference of the paper's means, whose seeds "
        "it does not list.",
        "Runs of another length or size than the paper's are shown, and not compared.",
        "A claim holds if our means are apart in its direction by more than 2 σ, does not hold if "
        "by more than 2 σ in the other, and is not decided between or with one seed. Claims that "
        "something makes no difference say their own rule.",
        "The verdicts are about our runs; where their length or size is not the paper's, they say "
        "so. With three seeds a standard error is itself a guess.",
    )
    return f"<section><h2>How to read this</h2>{_lines(lines)}</section>"


def _lines(lines: Sequence[str]) -> str:
    return f'<ul class="lines">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'
