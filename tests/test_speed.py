"""The benchmark of speed: what its pages say of measurements, and how it asks. Times nothing."""

import json
import re
import shutil
import sys

import pytest

import speed
from contest import cases, driver, measured, targets
from contest.cases import Contestant, Heat, Size

THREADS = 2
UPDATE_MS = dict(zip(cases.UPDATE, (4, 60, 5, 0, 0, 40), strict=True))


def generation(kind, seconds):
    """What a contestant of this kind says of one generation."""
    if kind == "split":
        parts = {part: ms / 1000 for part, ms in UPDATE_MS.items()}
        return {"seconds": seconds, "physics": 0.27, "acting": 0.05, "update": 0.12, **parts}
    return {"seconds": seconds, "collect": 0.6 * seconds, "update": 0.4 * seconds,
            "diagnosis": 0.016, "logging": 0.004}  # fmt: skip


def heat(contest, seconds, broken=()):
    """A made-up heat of three rounds of one generation; the middle one takes `seconds`."""
    found = {}
    for one in contest.contestants:
        middle = seconds.get(one.name, 1.0)
        rounds = [[generation(one.kind, factor * middle)] for factor in (0.9, 1.0, 1.2)]
        found[one.name] = {
            "rounds": rounds,
            "peak": 800.0,
            "private": [500.0 + i for i in range(38)],
        }
        if one.name in broken:
            found[one.name] = {"rounds": [], "error": "it has no wheels"}
    return found


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A folder of measurements, and pages beside it to be written."""
    shutil.copy(speed.PAGE, tmp_path / "speed.md")
    for name, file in (("RESULTS", "results.md"), ("PAGE", "speed.md"), ("PICTURE", "speed.png")):
        monkeypatch.setattr(speed, name, tmp_path / file)
    monkeypatch.setattr(speed, "KEPT", tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    return tmp_path


def fill(folder):
    """Measurements of one task, alone and in turns, of the threads, the width and the memory."""
    env = cases.TASKS[0]
    seconds = {cases.SB3: 1.6, cases.SB3_SUBPROC: 1.2, cases.SBX: 1.0, cases.CONTRIB_TRPO: 1.5,
               "ppo": 0.4, "capo": 0.44, "capo-avg": 0.5, "trpo": 0.45,
               cases.PHYSICS: 0.3}  # fmt: skip
    heats = {
        f"main-{env}": heat(cases.main(env, THREADS), seconds, broken=("ppo-kx",)),
        f"close-{env}": heat(cases.close(env), {**seconds, "capo 16": 0.9, "capo-avg 16": 0.7}),
        f"split-{env}": heat(cases.split(env), {"ppo": 0.44}),
        "threads": heat(cases.threads(THREADS), {"1": 1.5, "2": 1.4}),
        "width": heat(cases.width(), {"ppo": 0.4, "capo 16": 0.9, "capo-avg 16": 0.7}),
        "memory": heat(cases.memory(THREADS), {}),
    }
    for name, found in heats.items():
        measured.keep(folder, name, found)


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["speed.py", *words])
    speed.main()


def test_the_pages_say_what_was_measured(page, monkeypatch, capsys):
    fill(page / "kept")
    run(monkeypatch, "--write-only")
    text = (page / "speed.md").read_text()
    assert "| `ppo` | 0.400 (0.380–0.440) | not run | not run | not run |" in text
    assert "| SB3 PPO, SubprocVecEnv | 1.20 (1.14–1.32) | not run |" in text
    assert "| `ppo-kx` | not run | not run |" in text
    assert "- ppo-kx (main-HalfCheetah-v4): it has no wheels" in text
    assert (
        "| HalfCheetah-v4 `ppo` | 270 | 50 | 4 | 60 | 5 | – | – | 40 | 109 | 120 | 16 | 4 |" in text
    )
    assert "| `capo` K = 32 | 800 | 507 | 537 |" in text
    assert "| K = 16 | 0.700 (0.665–0.770) | 1.75 | 0.900 (0.855–0.990) | 2.25 |" in text
    assert "Threads of PyTorch: 2, " in text
    assert "No GPU was measured" in text
    results = (page / "results.md").read_text()
    for mark, section in speed.sections(measured.kept(page / "kept")).items():
        assert f"<!-- {mark}: begin -->\n{section}\n<!-- {mark}: end -->" in text
        assert section in results
    assert (page / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert "reached" in capsys.readouterr().out


def test_targets_are_judged_by_medians_of_the_same_rounds(page):
    fill(page / "kept")
    table = targets.ratio_table(measured.kept(page / "kept"))
    cells = {line.split(" | ")[0]: line.split(" | ")[2] for line in table.splitlines()[2:]}
    # The faster of SB3's two ways, although it is not the usual one.
    assert cells["| `ppo`, times as fast as SB3's PPO"] == "3.00 (3.00–3.00) **missed**"
    assert cells["| `trpo`, times as fast as SB3-contrib's"] == "3.33 (3.33–3.33) **reached**"
    assert cells["| time of `ppo` over that of the physics alone"].endswith("**reached**")
    assert cells["| time of `capo` over that of `ppo`"] == "1.10 (1.10–1.10) **reached**"
    assert cells["| time of `capo-avg` over that of `ppo`"].endswith("**missed**")
    other = targets.other_table(measured.kept(page / "kept"))
    assert "| time of `capo-avg`, K = 16, over that of `ppo` | ≤ 2 | 1.75" in other
    assert re.search(r"`capo`, K = 16, .* \| \*\*missed\*\* \|", other)
    assert "| `capo --help` | < 0.5 s | not run |" in other


def test_ours_are_compared_within_a_round(page):
    """The machine gets slower all the time; the ratios do not change."""
    env = cases.TASKS[0]
    found = heat(cases.close(env), {"ppo": 0.4, "capo": 0.5})
    for index, (one, other) in enumerate(
        zip(found["capo"]["rounds"], found["ppo"]["rounds"], strict=True)
    ):
        one[0]["seconds"], other[0]["seconds"] = 0.5 * 2**index, 0.4 * 2**index
    measured.keep(page / "kept", f"close-{env}", found)
    kept = measured.kept(page / "kept")
    assert targets.close_ratio(kept, env, "capo", "ppo") == pytest.approx((1.25, 1.25, 1.25))
    with pytest.raises(KeyError):
        targets.close_ratio(kept, env, "trpo", "ppo")


def test_pages_are_written_before_anything_is_measured(page, monkeypatch):
    run(monkeypatch, "--write-only")
    assert "Not run yet." in (page / "results.md").read_text()
    assert "reached" not in (page / "results.md").read_text()


def test_an_unknown_part_is_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "--only", "main", "mian")
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "'mian'" in said
    assert all(part in said for part in speed.PARTS)


def test_only_what_is_missing_or_from_elsewhere_is_measured(page, monkeypatch, capsys):
    asked = []

    def in_turns(contest, size, logs):
        asked.append(contest.name)
        return heat(contest, {})

    monkeypatch.setattr(speed, "in_turns", in_turns)
    fill(page / "kept")
    run(monkeypatch, "--only", "width", "envs", "split")
    assert asked == ["split-Hopper-v4", "split-Ant-v4", "split-Humanoid-v4", "envs"]
    file = page / "kept" / "width.json"
    file.write_text(file.read_text().replace('"cores":', '"cores": 1, "were":'))
    run(monkeypatch, "--only", "width", "envs")
    assert asked[4:] == ["width"]
    run(monkeypatch, "--only", "envs", "--again")
    assert asked[5:] == ["envs"]


def test_contestants_are_asked_in_turns_and_one_that_cannot_run_stops_nobody(tmp_path, capfd):
    def one(env):
        return Contestant(env, "physics", env, {"backend": "gymnasium"})

    both = Heat("both", [one("Pendulum-v1"), one("NoSuchTask-v0")])
    found = driver.in_turns(both, Size(least=2, most=2, generations=2, warmup=1), tmp_path)
    assert [len(some) for some in found["Pendulum-v1"]["rounds"]] == [2, 2]
    assert all(g["seconds"] > 0 for some in found["Pendulum-v1"]["rounds"] for g in some)
    assert found["Pendulum-v1"]["peak"] > found["Pendulum-v1"]["private"][-1] > 10
    assert found["NoSuchTask-v0"]["rounds"] == []
    assert "NoSuchTask" in found["NoSuchTask-v0"]["error"]
    assert json.loads(json.dumps(found)) == found
    assert "not run" in capfd.readouterr().out
