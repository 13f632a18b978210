"""The speed benchmark: tables and pages from made-up timings, and the driver of its processes."""

import json
import re
import shutil
import sys

import pytest

from benchmarks.speed import __main__ as command
from benchmarks.speed import cases, driver, measurements, targets
from benchmarks.speed.cases import Comparison, Effort, Program

THREADS = 2
UPDATE_MS = dict(zip(cases.UPDATE, (4, 60, 5, 0, 0, 40), strict=True))


def generation(kind, seconds):
    """The timings of one generation, as a program of this kind reports them."""
    if kind == "breakdown":
        parts = {part: ms / 1000 for part, ms in UPDATE_MS.items()}
        return {"seconds": seconds, "physics": 0.27, "acting": 0.05, "update": 0.12, **parts}
    return {"seconds": seconds, "collect": 0.6 * seconds, "update": 0.4 * seconds,
            "diagnosis": 0.016, "logging": 0.004}  # fmt: skip


def made_up(comparison, seconds, broken=()):
    """Timings of three rounds of one generation; the median is `seconds`, or 1."""
    found = {}
    for one in comparison.programs:
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
    """A temporary copy of docs/speed.md, and an empty folder of measurements."""
    shutil.copy(command.PAGE, tmp_path / "speed.md")
    monkeypatch.setattr(command, "PAGE", tmp_path / "speed.md")
    for name in ("MEASUREMENTS", "LOGS"):
        monkeypatch.setattr(command, name, tmp_path / name.lower())
        (tmp_path / name.lower()).mkdir()
    return tmp_path


def save_measurements(folder):
    """Saves made-up timings of most comparisons on one task."""
    env = cases.TASKS[0]
    seconds = {cases.SB3: 1.6, cases.SB3_SUBPROC: 1.2, cases.SBX: 1.0, cases.CONTRIB_TRPO: 1.5,
               "ppo": 0.4, "capo": 0.44, "capo-avg": 0.5, "trpo": 0.45,
               cases.PHYSICS: 0.3}  # fmt: skip
    comparisons = {
        f"main-{env}": made_up(cases.main(env, THREADS), seconds, broken=("ppo-kx",)),
        f"paired-{env}": made_up(
            cases.paired(env), {**seconds, "capo 16": 0.9, "capo-avg 16": 0.7}
        ),
        f"breakdown-{env}": made_up(cases.breakdown(env), {"ppo": 0.44}),
        "threads": made_up(cases.threads(THREADS), {"1": 1.5, "2": 1.4}),
        "width": made_up(cases.width(), {"ppo": 0.4, "capo 16": 0.9, "capo-avg 16": 0.7}),
        "memory": made_up(cases.memory(THREADS), {}),
    }
    for name, found in comparisons.items():
        measurements.save(folder, name, found)


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["speed", *words])
    command.main()


def test_pages_state_the_measurements(page, monkeypatch, capsys):
    save_measurements(page / "measurements")
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
    assert "PyTorch threads: 2, " in text
    assert "No GPU was measured" in text
    tables = (page / "measurements" / "tables.md").read_text()
    for mark, section in command.sections(measurements.load(page / "measurements")).items():
        assert f"<!-- {mark}: begin -->\n{section}\n<!-- {mark}: end -->" in text
        assert section in tables
    assert (page / "measurements" / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert "reached" in capsys.readouterr().out


def test_targets_compare_medians_of_the_same_rounds(page):
    save_measurements(page / "measurements")
    table = targets.ratio_table(measurements.load(page / "measurements"))
    cells = {line.split(" | ")[0]: line.split(" | ")[2] for line in table.splitlines()[2:]}
    # SB3 is represented by its faster vector environment.
    assert cells["| speed of `ppo` relative to SB3's PPO"] == "3.00 (3.00–3.00) **missed**"
    assert cells["| speed of `trpo` relative to SB3-contrib's"] == "3.33 (3.33–3.33) **reached**"
    assert cells["| time of `ppo` relative to the physics alone"].endswith("**reached**")
    assert cells["| time of `capo` relative to `ppo`"] == "1.10 (1.10–1.10) **reached**"
    assert cells["| time of `capo-avg` relative to `ppo`"].endswith("**missed**")
    other = targets.other_table(measurements.load(page / "measurements"))
    assert "| time of `capo-avg`, K = 16, relative to `ppo` | ≤ 2 | 1.75" in other
    assert re.search(r"`capo`, K = 16, .* \| \*\*missed\*\* \|", other)
    assert "| `capo --help` | < 0.5 s | not run |" in other


def test_paired_ratios_ignore_a_drift_of_the_machine(page):
    """Every round takes twice as long as the one before; the ratios stay the same."""
    env = cases.TASKS[0]
    found = made_up(cases.paired(env), {"ppo": 0.4, "capo": 0.5})
    for index, (one, other) in enumerate(
        zip(found["capo"]["rounds"], found["ppo"]["rounds"], strict=True)
    ):
        one[0]["seconds"], other[0]["seconds"] = 0.5 * 2**index, 0.4 * 2**index
    measurements.save(page / "measurements", f"paired-{env}", found)
    kept = measurements.load(page / "measurements")
    assert targets.paired_ratio(kept, env, "capo", "ppo") == pytest.approx((1.25, 1.25, 1.25))
    with pytest.raises(KeyError):
        targets.paired_ratio(kept, env, "trpo", "ppo")


def test_pages_can_be_written_without_measurements(page, monkeypatch):
    run(monkeypatch, "--write-only")
    assert "Not run yet." in (page / "measurements" / "tables.md").read_text()
    assert "reached" not in (page / "measurements" / "tables.md").read_text()


def test_an_unknown_part_is_an_error(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "--only", "main", "mian")
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert "'mian'" in text
    assert all(part in text for part in command.PARTS)


def test_only_missing_or_outdated_comparisons_are_measured(page, monkeypatch, capsys):
    timed = []

    def time_in_turns(comparison, effort, logs):
        timed.append(comparison.name)
        return made_up(comparison, {})

    monkeypatch.setattr(command, "time_in_turns", time_in_turns)
    save_measurements(page / "measurements")
    run(monkeypatch, "--only", "width", "envs", "breakdown")
    assert timed == ["breakdown-Hopper-v4", "breakdown-Ant-v4", "breakdown-Humanoid-v4", "envs"]
    file = page / "measurements" / "width.json"
    file.write_text(file.read_text().replace('"cores":', '"cores": 1, "were":'))
    run(monkeypatch, "--only", "width", "envs")
    assert timed[4:] == ["width"]
    run(monkeypatch, "--only", "envs", "--again")
    assert timed[5:] == ["envs"]


def test_a_program_that_cannot_run_does_not_stop_the_others(tmp_path, capfd):
    def one(env):
        return Program(env, "physics", env, {"backend": "gymnasium"})

    both = Comparison("both", [one("Pendulum-v1"), one("NoSuchTask-v0")])
    found = driver.time_in_turns(
        both, Effort(min_rounds=2, max_rounds=2, generations=2, warmup=1), tmp_path
    )
    assert [len(some) for some in found["Pendulum-v1"]["rounds"]] == [2, 2]
    assert all(g["seconds"] > 0 for some in found["Pendulum-v1"]["rounds"] for g in some)
    assert found["Pendulum-v1"]["peak"] > found["Pendulum-v1"]["private"][-1] > 10
    assert found["NoSuchTask-v0"]["rounds"] == []
    assert "NoSuchTask" in found["NoSuchTask-v0"]["error"]
    assert json.loads(json.dumps(found)) == found
    assert "not run" in capfd.readouterr().out
