"""report.html in a real browser: curves, sorting, and no scripts or requests of others."""

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from capo.cli.main import main
from support.browser import TRAP, events, find, hover, press, requested, visit
from support.run_folders import make_run

pytestmark = pytest.mark.xdist_group("browser")  # one worker, one browser

TINY = ["-n", "1024", "--num-envs", "2", "--num-steps", "64", "--minibatches", "4", "--hidden", "8"]
SCORES = {1: 100.0, 2: 9.5, 3: -20.0, 4: 1000.0, 5: None}


def run(folder, *words):
    """Runs a command in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["capo", *words])
        assert main(list(words)) == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The report of two methods with two trained seeds each."""
    folder = tmp_path_factory.mktemp("trained")
    for algo in ("ppo", "capo"):
        for seed in ("1", "2"):
            run(folder, "train", "CartPole-v1", "--algo", algo, "--seed", seed, *TINY)
    run(folder, "compare", "runs")
    return folder / "compare" / "report.html"


@pytest.fixture(scope="module")
def crafted(tmp_path_factory):
    """The report of runs with returns of all sizes, a missing one, and markup in names."""
    folder = tmp_path_factory.mktemp("crafted")
    for seed, score in SCORES.items():
        returns = (None,) if score is None else (1.0, score)
        make_run(
            folder / "runs" / f"seed{seed}", "Plain-v0", seed=seed, returns=returns, score=score
        )
    make_run(folder / "runs" / "capo", "Plain-v0", "capo", score=50.0)
    run_folder = make_run(
        folder / "runs" / TRAP.replace("/", ""),
        manifest={"command": TRAP, "status": TRAP, "versions": {TRAP: TRAP}},
    )
    other = make_run(folder / "runs" / "<img src=x onerror=window.__pwned=1>", seed=2)
    for path, more in ((run_folder, {}), (other, {TRAP: TRAP, "gamma": TRAP})):
        config = json.loads((path / "config.json").read_text())
        config |= {"env_id": TRAP, "algo": TRAP, **more}
        (path / "config.json").write_text(json.dumps(config))
    gif = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(gif, "GIF")
    (run_folder / "play.gif").write_bytes(gif.getvalue())
    run(folder, "compare", "runs")
    return folder / "compare" / "report.html"


def colors(element):
    """Every pixel of a screenshot of the element."""
    picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
    return np.asarray(picture).reshape(-1, 3).astype(int)


def column(browser, table, name):
    heads = [head.text.split("\n")[0].strip() for head in find(browser, f"#{table} th")]
    at = heads.index(name) + 1
    button = find(browser, f"#{table} th:nth-child({at}) button")[0]
    return button, lambda: [
        cell.text for cell in find(browser, f"#{table} tbody td:nth-child({at})")
    ]


def test_errors_and_requests_of_a_page_are_noticed(browser, tmp_path):
    """The checks below fail for a page with an error and a request."""
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('x')</script><img src='there-is-none.png'>")
    visit(browser, page)
    assert [entry["level"] for entry in browser.get_log("browser")] == ["SEVERE", "SEVERE"]
    assert requested(browser) == [page.as_uri(), (tmp_path / "there-is-none.png").as_uri()]


@pytest.mark.parametrize("name", ["trained", "crafted"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_logs_nothing_and_requests_nothing(browser, request, name, width):
    page = request.getfixturevalue(name)
    visit(browser, page, width)
    button, _ = column(browser, "runs", "Seed")
    button.click()
    assert browser.get_log("browser") == []
    assert {url for url in requested(browser) if not url.startswith("data:")} == {page.as_uri()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_are_drawn(browser, trained, scheme):
    visit(browser, trained, scheme=scheme)
    (chart,) = find(browser, "figure[data-curves] svg.chart")
    assert chart.size["width"] > 400
    assert chart.size["height"] > 200
    pixels = colors(chart)
    for line in find(browser, "figure[data-curves] path.line:not(.swatch path)"):
        stroke = line.value_of_css_property("stroke")
        wanted = np.array([int(x) for x in stroke.strip("rgb()").split(",")])
        assert (np.abs(pixels - wanted).max(axis=1) < 12).sum() > 50
    assert len(find(browser, "path.area.signal")) == len(find(browser, "path.area.waste")) == 2
    ground = find(browser, "body")[0].value_of_css_property("background-color")
    assert ground == ("rgba(255, 255, 255, 1)" if scheme == "light" else "rgba(22, 23, 26, 1)")


def test_the_legend_shows_the_values_at_the_pointer(browser, trained):
    visit(browser, trained)
    (chart,) = find(browser, "figure[data-curves] svg.chart")
    assert [output.text for output in find(browser, "output")] == ["", ""]
    hover(browser, chart)
    assert all(float(output.text) > 0 for output in find(browser, "output"))
    assert find(browser, ".legend .steps")[0].text.endswith(" steps")
    hover(browser, find(browser, "h1")[0])
    assert [output.text for output in find(browser, "output")] == ["", ""]


def test_everything_is_on_the_page(browser, trained):
    visit(browser, trained)
    assert find(browser, "h1")[0].text == "ppo and capo on CartPole-v1"
    commands = "\n".join(each.text for each in find(browser, "details pre")).splitlines()
    assert len(commands) == 4
    assert commands[0] == f"capo train CartPole-v1 --algo ppo --seed 1 {' '.join(TINY)}"
    assert find(browser, "pre.alone")[0].text == "capo compare runs"
    _, status = column(browser, "runs", "Status")
    assert status() == ["finished"] * 4
    _, seeds = column(browser, "results", "Seeds")
    assert seeds() == ["2", "2"]


def test_a_click_on_a_header_sorts_numerically_and_then_reverses(browser, crafted):
    visit(browser, crafted)
    button, values = column(browser, "runs", "Final return")
    head = button.find_element("xpath", "..")
    up = ["−20.0", "9.50", "20.0*", "20.0*", "50.0", "100.0", "1000", "–"]
    assert head.get_attribute("aria-sort") == "none"
    button.click()
    assert values() == up
    assert head.get_attribute("aria-sort") == "ascending"
    button.click()
    assert values() == [*reversed(up[:-1]), "–"]
    assert head.get_attribute("aria-sort") == "descending"


def test_a_header_sorts_text_from_the_keyboard(browser, crafted):
    visit(browser, crafted)
    button, values = column(browser, "runs", "Folder")
    before = values()
    browser.execute_script("arguments[0].focus()", button)
    press(browser, "ENTER")
    assert values() == sorted(before, key=str.lower) != before
    press(browser, "SPACE")
    assert values() == sorted(before, key=str.lower, reverse=True)
    sorted_by = [head.get_attribute("aria-sort") for head in find(browser, "#runs th")]
    assert sorted_by.count("none") == len(sorted_by) - 1


def test_names_are_text_and_nothing_but_text(browser, crafted):
    visit(browser, crafted)
    assert browser.execute_script("return window.__pwned") is None
    assert browser.execute_script("return document.scripts.length") == 1
    assert TRAP in find(browser, "#results")[0].text
    assert f"{TRAP}={TRAP}" in find(browser, "#results")[0].text
    assert "<img src=x onerror=window.__pwned=1>" in find(browser, "#runs")[0].text
    assert TRAP in find(browser, "footer")[0].text
    (picture,) = find(browser, "img")
    assert picture.get_attribute("src").startswith("data:image/gif;base64,")
    assert picture.get_attribute("naturalWidth") == "40"
    assert browser.get_log("browser") == []


def test_injected_markup_can_neither_run_nor_send_requests(browser, trained):
    visit(browser, trained)
    browser.execute_async_script(
        "const script = document.createElement('script'), picture = new Image();"
        "script.textContent = 'window.__pwned = 1';"
        "document.body.append(script, picture);"
        "picture.addEventListener('error', arguments[0]);"
        "picture.src = 'https://example.invalid/x';"
    )
    assert browser.execute_script("return window.__pwned") is None
    failed = [e["params"] for e in events(browser) if e["method"] == "Network.loadingFailed"]
    assert [params["blockedReason"] for params in failed] == ["csp"]
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert len(refused) == 2
    assert all("Content Security Policy" in message for message in refused)


@pytest.mark.parametrize("name", ["trained", "crafted"])
def test_the_page_fits_a_phone(browser, request, name):
    visit(browser, request.getfixturevalue(name), width=400)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg.chart text:not(.name)')]"
        ".map((text) => text.getBoundingClientRect().height)"
    )
    assert min(sizes) > 9
