"""A comparison as text for a terminal and as CSV."""

import csv
import io
import itertools
import math
from collections.abc import Iterable
from typing import Any

from capo.compare.curves import Curve
from capo.compare.groups import Group
from capo.compare.results import Estimate, GroupResult, OverallResult
from capo.report.format import NOTHING, aligned, rounded, with_error
from capo.storage.text import printable

TRAINING_RETURN_NOTE = "* includes the last training return of runs without an evaluation"


def text_table(results: list[GroupResult], over: list[OverallResult], confidence: float) -> str:
    """Final returns, with a block for each environment."""
    percent = f"{100 * confidence:g}%"
    rows = [["", "seeds", "final return", f"IQM [{percent}]", f"P(better) [{percent}]"]]
    blank = " " if any(result.without_evaluation for result in results) else ""
    titles: dict[int, str] = {}
    for env_id, here in itertools.groupby(results, key=lambda r: r.group.env_id):
        first, *rest = here
        titles[len(rows)] = f"{env_id}, against {first.group.label}" if rest else env_id
        rows += [_cells(result, blank) for result in (first, *rest)]
    for reference, overs in itertools.groupby(over, key=lambda o: o.reference):
        titles[len(rows)] = f"mean over environments, against {reference}"
        rows += [_overall_cells(result, blank) for result in overs]
    lines: list[str] = []
    for index, line in enumerate(aligned(rows, right={1, 2})):
        lines += ["", printable(titles[index])] if index in titles else []
        lines.append(line)
    return "\n".join([*lines, "", TRAINING_RETURN_NOTE] if blank else lines)


def _cells(result: GroupResult, blank: str) -> list[str]:
    return [
        f"  {result.group.label}",
        str(len(result.scores)),
        with_error(result.mean, result.error) + ("*" if result.without_evaluation else blank),
        interval(result.iqm),
        interval(result.better, digits=2),
    ]


def _overall_cells(result: OverallResult, blank: str) -> list[str]:
    envs, better = f"{result.environments} envs{blank}", interval(result.better, digits=2)
    return [f"  {result.label}", "", envs, "", better]


def interval(estimate: Estimate, digits: int | None = None) -> str:
    """500.0 [480.1, 512.0]; a dash for NaN."""
    if math.isnan(estimate.value):
        return NOTHING
    value, low, high = (
        rounded(x, like=estimate.value) if digits is None else f"{x:.{digits}f}" for x in estimate
    )
    return f"{value} [{low}, {high}]"


def table_csv(results: list[GroupResult], over: list[OverallResult], confidence: float) -> bytes:
    """The table in full precision; unknown values are empty."""
    heads = ["environment", "algorithm", "label", "seeds", "without_evaluation", "mean"]
    heads += ["standard_error", "iqm", "iqm_low", "iqm_high", "reference", "better", "better_low"]
    rows: list[list[Any]] = [[*heads, "better_high", "confidence"]]
    for r in results:
        group, numbers = r.group, [len(r.scores), r.without_evaluation, r.mean, r.error, *r.iqm]
        named = [group.env_id, group.algo, group.label]
        rows.append([*named, *numbers, r.reference, *r.better, confidence])
    for o in over:
        named = [f"mean over {o.environments}", "", o.label, *[""] * 7, o.reference]
        rows.append([*named, *o.better, confidence])
    return _csv(rows)


def curves_csv(curves: Iterable[tuple[Group, Curve]]) -> bytes:
    """Learning curves with a row for each point."""
    rows: list[list[Any]] = [["environment", "label", "seeds", "steps", "mean", "low", "high"]]
    for group, curve in curves:
        points = zip(curve.steps, curve.mean, curve.low, curve.high, strict=True)
        rows += [
            [group.env_id, group.label, curve.seeds, f"{steps:.0f}", *map(float, rest)]
            for steps, *rest in points
        ]
    return _csv(rows)


def _csv(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow("" if isinstance(x, float) and math.isnan(x) else x for x in row)
    return text.getvalue().encode(errors="replace")
