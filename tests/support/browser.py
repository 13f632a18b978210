"""Chromium for the tests in tests/browser, which are skipped without it."""

import json
import os
import shutil

import pytest

pytest.importorskip("selenium", reason="make test-browser installs it")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("needs Debian's chromium and chromium-driver", allow_module_level=True)

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

FLAGS = """--headless=new --disable-gpu --disable-quic --no-first-run --disable-sync
    --disable-background-networking --disable-component-update --hide-scrollbars"""
TRAP = '"><img src=x onerror="window.__pwned=1"><script>window.__pwned=1</script>'


def start(profile):
    """Starts Chromium with a new profile and its logs enabled."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def visit(browser, page, width=1280, scheme="light"):
    """Clears the logs and opens the page in a window of this width."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(page.as_uri())


def events(browser):
    """Network events since the page was opened."""
    return [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]


def requested(browser):
    """The requested addresses."""
    sent = (e["params"] for e in events(browser) if e["method"] == "Network.requestWillBeSent")
    return [params["request"]["url"] for params in sent]


def find(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def hover(browser, element):
    ActionChains(browser).move_to_element(element).perform()


def press(browser, key):
    """Presses a key: ENTER, SPACE, …"""
    ActionChains(browser).send_keys(getattr(Keys, key)).perform()
