"""The pages say what the kept runs say."""

import pages
from capo.paper.page import write
from capo.paper.store import Store


def test_pages_are_current():
    found = pages.sections(Store(pages.RESULTS).results())
    for page, mark in ((pages.README, "learning"), (pages.PAGE, "reproduced")):
        rest = page.read_text().split(f"<!-- {mark}: begin -->\n")[1]
        assert rest.split(f"\n<!-- {mark}: end")[0] == found[mark], "run: make results"


def test_tables_are_current(tmp_path):
    kept = Store(pages.RESULTS).results()
    assert pages.shown(kept)
    write(tmp_path, pages.shown(kept), pages.WHOLE, kept, {}, "")
    made, there = (
        {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".md", ".csv")}
        for folder in (tmp_path, pages.RESULTS)
    )
    assert made == there, "run: make results"
