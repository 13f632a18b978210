"""The pages that need other projects."""

import pytest

from support.pages import PAGES, name, run_blocks

NEEDY = [name(page) for page in PAGES if "<!-- needs: " in page.read_text()]


@pytest.mark.parametrize("page", NEEDY)
def test_the_whole_page_runs(page, elsewhere):
    pytest.importorskip("stable_baselines3", reason="make test-peers installs it")
    pytest.importorskip("onnxruntime", reason="make test-peers installs it")
    run_blocks(page)
