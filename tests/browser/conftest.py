"""The browser of this folder's tests."""

import pytest


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from support.browser import start

    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
