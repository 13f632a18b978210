"""What a benchmark measured, written into the pages that state it."""

from pathlib import Path

NOT_RUN = "not run"
ROOT = Path(__file__).resolve().parent.parent


def fill(page: Path, mark: str, text: str) -> None:
    """Writes `text` between the page's <!-- mark: begin --> and <!-- mark: end -->."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
