"""index.html of `capo reproduce` in a real browser: layout, requests, contrast."""

import pytest

from capo.paper.experiments import EXPERIMENTS
from capo.paper.page import write
from capo.paper.tasks import ENVS, PAPER
from capo.sweeps.results import Results
from support.browser import TRAP, find, requested, visit
from support.paper_runs import invented

pytestmark = pytest.mark.xdist_group("browser")  # one worker, one browser

READABLE = 4.5
"""Contrast that small text needs."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """All experiments with some tasks not run, and a failed run with markup in its name."""
    out, names = tmp_path_factory.mktemp("out"), list(EXPERIMENTS)
    results = invented(names, PAPER._replace(seeds=3), left_out=ENVS[4:])
    failures = {TRAP: TRAP, "Ant-v4__capo__1M__" + "long=" * 60: "x" * 300}
    write(out, names, Results(results, PAPER), failures, "capo reproduce all " + "--out x " * 40)
    return out / "index.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_and_logs_nothing(browser, page, width):
    visit(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # Whatever sticks out is inside a box that scrolls.
    outside = browser.execute_script(
        "return [...document.querySelectorAll('body *')]"
        ".filter((e) => !e.closest('.scroll, .picture'))"
        ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    assert browser.get_log("browser") == []
    assert {url for url in requested(browser) if not url.startswith("data:")} == {page.as_uri()}


def test_pictures_and_links_are_there(browser, page):
    visit(browser, page)
    widths = [int(each.get_attribute("naturalWidth")) for each in find(browser, ".picture img")]
    drawn = [each for each in EXPERIMENTS.values() if each.figure and {*each.envs} & {*ENVS[:4]}]
    assert len(widths) == len(drawn)
    assert min(widths) > 600
    for link in find(browser, ".contents a"):
        target = link.get_attribute("href").partition("#")[2]
        assert len(find(browser, f"section#{target}")) == 1


@pytest.mark.parametrize("width", [1280, 400])
def test_a_wide_table_scrolls_in_its_box(browser, page, width):
    visit(browser, page, width)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].map("
        "(e) => [e.scrollWidth, e.clientWidth, getComputedStyle(e).overflowX])"
    )
    assert {style for _, _, style in boxes} == {"auto"}
    if width == 400:
        assert any(inner > outer for inner, outer, _ in boxes)


def test_names_are_text_and_nothing_but_text(browser, page):
    visit(browser, page)
    assert browser.execute_script("return window.__pwned") is None
    assert browser.execute_script("return document.scripts.length") == 0
    assert TRAP in find(browser, "main")[0].text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser, page, scheme):
    """The contrast of each kind of text with its background."""
    visit(browser, page, scheme=scheme)
    found = browser.execute_script(
        """
        const parts = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((x) => x / 255)
          .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
          .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = (e) => {
          for (; e; e = e.parentElement) {
            const color = parts(getComputedStyle(e).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color.slice(0, 3);
          }
          return [255, 255, 255];
        };
        const names = ['h1', '.lead', '.about', '.where', 'th', '.ours', '.theirs', '.numbers',
          'td.ours-higher .gap', 'td.ours-lower .gap', 'td.agrees .gap', 'td.none .ours', 'a',
          '.tag.holds', '.tag.does-not-hold', '.tag.not-decided', '.tag.not-run', '.lines li',
          '.unasked', 'footer p'];
        return names.map((name) => {
          const e = document.querySelector(name), style = getComputedStyle(e), back = ground(e);
          const [r, g, b] = parts(style.color), mix = Number(style.opacity);
          const front = [r, g, b].map((x, i) => mix * x + (1 - mix) * back[i]);
          const [a, z] = [light(front), light(back)].sort((x, y) => y - x);
          return [name, (a + 0.05) / (z + 0.05)];
        });
        """
    )
    faint = {name: round(contrast, 2) for name, contrast in found if contrast < READABLE}
    assert set(faint) <= {"td.none .ours"}  # what was not run is meant to step back
    assert all(contrast > 3 for contrast in faint.values())
    ground = find(browser, "body")[0].value_of_css_property("background-color")
    assert ground == ("rgba(255, 255, 255, 1)" if scheme == "light" else "rgba(22, 23, 26, 1)")
