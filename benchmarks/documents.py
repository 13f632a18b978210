"""Paths of measurements and pages, and a function that writes tables into the pages."""

from pathlib import Path

NOT_RUN = "not run"
ROOT = Path(__file__).resolve().parent.parent
RESULTS, DOCS, README = ROOT / "results", ROOT / "docs", ROOT / "README.md"


def fill_section(page: Path, name: str, text: str) -> None:
    """Writes `text` between the page's <!-- name: begin --> and <!-- name: end -->."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
