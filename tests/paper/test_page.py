"""The page of a reproduction, and the files beside it."""

import base64
import hashlib
import re
from html import unescape

import pytest

from capo.paper.contradictions import CONTRADICTIONS
from capo.paper.experiments import EXPERIMENTS
from capo.paper.page import index_page, origins, write
from capo.paper.reports import build_reports
from capo.paper.tasks import ENVS, HOPPER, HUMANOID, PAPER, of_tier
from capo.sweeps.design import Variant
from capo.sweeps.results import Results
from support.paper_runs import add, add_pair, invented

FULL, TWO = PAPER, PAPER._replace(seeds=2)
SHOWN = ["main", "curves", "depth", "fisher-epochs", "wall-clock", "carry", "attribution"]
TRAP = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def made_page(names, selection, results=None, failures=None, command="capo"):
    results = results or {}
    shown = build_reports(names, Results(results, selection))
    return index_page(names, shown, Results(results, selection), failures or {}, command).decode()


one_worker = pytest.mark.xdist_group("paper-page")


@pytest.fixture(scope="module")
def made():
    """A page of most experiments with half of the tasks not run, and a failed run."""
    results = invented(SHOWN, TWO, left_out=ENVS[3:])
    name, run = results.popitem()
    results[name] = run._replace(origin={"versions": {TRAP: TRAP}, "commit": TRAP, "date": TRAP})
    return made_page(SHOWN, TWO, results, {TRAP: TRAP}, f"capo {TRAP}")


@one_worker
def test_the_page_is_self_contained_and_escapes_names(made):
    assert '<meta name="generator" content="capo reproduce">' in made[:1000]
    assert TRAP not in made
    assert unescape(made).count(TRAP) >= 5
    assert not re.search(r"<script|<iframe|<object|<link(?! rel=\"icon\" href=\"data:,\")", made)
    sources = re.findall(r"(?:src|href)=\"([^\"]*)\"", made)
    assert {source.partition(":")[0] for source in sources if not source.startswith("#")} == {
        "data"
    }
    assert "url(" not in made
    assert " style=" not in made


@one_worker
def test_the_content_security_policy_allows_only_this_style(made):
    style = re.search(r"<style>(.*)</style>", made, re.DOTALL)[1]
    policy = unescape(re.search(r"Content-Security-Policy\" content=\"([^\"]*)\"", made)[1])
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


@one_worker
def test_the_page_has_all_experiments_in_order(made):
    for name in SHOWN:
        assert f'<section id="{name}">' in made
        assert f'<a href="#{name}">' in made
        assert EXPERIMENTS[name].title in unescape(made)
    assert made.count("data:image/png;base64,") == 4
    for line in CONTRADICTIONS:
        assert line in unescape(made)
    assert "not run" in made
    assert "1 run failed" in made
    assert '<span class="tag holds">' in made
    order = [made.index(f'<section id="{name}">') for name in SHOWN]
    assert order == sorted(order)
    assert "`" not in made


def test_a_page_without_runs_keeps_the_given_order():
    found = made_page(["waste", "curves"], FULL)
    assert found.index('id="waste"') < found.index('id="curves"')
    assert "failed" not in found
    assert "data:image" not in found
    assert '<p class="lead">0 of 336 runs; the paper&#39;s steps' in found
    trial = made_page(["main"], of_tier("smoke"))
    assert "2.56k steps each; 1 seed; preset corrected; sizes different" in trial


def test_cells_and_names_of_rows_on_the_page():
    """A reason why two numbers cannot be compared is shown with and without a number beside it."""
    found = add_pair({}, HOPPER, [1100, 3300], [1000, 3000])
    add(found, HUMANOID, Variant("ppo"), [500], PAPER._replace(steps=1_000_000))
    shown = re.sub(r">\s+<", "><", made_page(["main", "curves"], FULL, found))
    assert '<td class="name"><code>capo</code> − <code>ppo</code></td>' in shown
    assert '<td class="number agrees"><span class="ours">200 ± 100 (2)</span>' in shown
    assert (
        '<span class="theirs">739 ± 39</span><span class="gap">1M steps, paper 4M</span>' in shown
    )
    assert '<span class="ours">500 (1)</span><span class="gap">1M steps, paper 4M</span>' in shown


def test_origins_name_all_versions_and_the_first_and_last_day():
    runs = list(add({}, HOPPER, Variant("ppo"), [1, 2]).values())
    later = {"versions": {"capo": "0.2.0"}, "commit": None, "cores": 2, "date": "2026-03-04"}
    runs[1] = runs[1]._replace(origin=later)
    assert origins(runs) == [
        "Trained with capo 0.1.0 and 0.2.0.",
        "Commit: 0123abc.",
        "Cores of a run: 1, 2.",
        "Run from 2026-01-02 to 2026-03-04.",
    ]
    assert origins([]) == ["The versions of the runs are unknown."]


def test_files_are_written_for_each_experiment(tmp_path):
    results = invented(["depth", "width"], TWO)
    out = tmp_path / "deep" / "out"
    write(out, ["depth", "width", "curves"], Results(results, TWO), {}, "capo reproduce depth")
    names = {path.name for path in out.iterdir()}
    # PPO at ten epochs has a learning curve as well.
    assert names == {
        "index.html",
        "depth.md",
        "depth.csv",
        "depth.png",
        "width.md",
        "width.csv",
    } | {
        "curves.csv",
        "curves.md",
        "curves.png",
    }
    said = (out / "depth.md").read_text()
    assert said.startswith("# Deeper updates")
    assert "![" in said
    assert "](depth.png)" in said
    assert "## By depth" in said
    assert re.search(r"^- \*\*[a-z ]+\*\*, Return against depth on Hopper: ", said, re.MULTILINE)
    assert (out / "depth.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "depth.csv").read_text().startswith("table,row,column,seeds,ours")
    assert "png" not in (out / "width.md").read_text()
    assert b"capo reproduce depth" in (out / "index.html").read_bytes()
