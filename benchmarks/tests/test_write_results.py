"""The generated tables are those of the runs in results/."""

import json

from benchmarks import diagnostics_cost, write_results
from capo.paper.page import write


def test_pages_are_current():
    found = write_results.sections(write_results.kept())
    for page, name in (
        (write_results.README, "learning"),
        (write_results.PAGE, "reproduced"),
        (write_results.ARMS_PAGE, "arms"),
    ):
        rest = page.read_text().split(f"<!-- {name}: begin -->\n")[1]
        assert rest.split(f"\n<!-- {name}: end")[0] == found[name], "run: make results"


def test_tables_are_current(tmp_path):
    kept = write_results.kept()
    assert write_results.shown(kept)
    write(tmp_path, write_results.shown(kept), kept, {}, "")
    made, there = (
        {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".md", ".csv")}
        for folder in (tmp_path, write_results.RESULTS)
    )
    del there["README.md"]
    assert made == there, "run: make results"


def test_the_cost_of_diagnostics_is_current():
    table = diagnostics_cost.table(json.loads(diagnostics_cost.FILE.read_text()))
    begin, end = "<!-- cost: begin -->", "<!-- cost: end -->"
    assert f"{begin}\n{table}\n{end}" in diagnostics_cost.PAGE.read_text()
