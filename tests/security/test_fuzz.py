"""Random files and arguments give a result or an error of one line."""

import contextlib
import io
import json
import math

import gymnasium as gym
import hypothesis.strategies as hs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hn

from capo.cli import main as cli
from capo.compare import compare
from capo.compare.page import report_page
from capo.compare.text import curves_csv, table_csv, text_table
from capo.config import Config, parse_steps
from capo.errors import UsageError
from capo.model import Model
from capo.runs.reading import read
from support.hostile_files import pack, unpack
from support.policies import blank_model
from support.run_folders import make_run

OFTEN = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
VERY_OFTEN = settings(OFTEN, max_examples=3400)

NUMBERS = hs.one_of(
    hs.integers(-3, 300),
    hs.integers(),
    hs.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 10**400]),
    hs.floats(),
)
TEXTS = hs.one_of(
    hs.text(hs.characters(exclude_categories=()), max_size=20),
    hs.sampled_from(["Box", "float32", "CartPole-v1", "json.tool:CartPole-v1", "os:x", "../x"]),
)
LEAVES = hs.one_of(hs.none(), hs.booleans(), NUMBERS, TEXTS)
VALUES = hs.recursive(
    LEAVES,
    lambda inner: hs.lists(inner, max_size=4) | hs.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
SIZES = hs.integers(-1, 6) | hs.sampled_from([2**20, 2**31, 2**40, 2**63, 10**18, 10**30])
SETTINGS = hs.one_of(
    hs.dictionaries(hs.sampled_from(list(Config("x").to_dict())), VALUES, max_size=2),
    hs.fixed_dictionaries({"hidden": hs.lists(SIZES, max_size=3), "frame_stack": SIZES}),
    hs.fixed_dictionaries({"num_envs": SIZES, "num_steps": SIZES, "minibatches": SIZES}),
)
SPACES = hs.recursive(
    hs.fixed_dictionaries(
        {"type": hs.sampled_from(["Box", "Discrete", "MultiDiscrete", "MultiBinary", "Text"])},
        optional={
            "shape": hs.lists(SIZES, max_size=3) | VALUES,
            "dtype": hs.sampled_from(["float32", "uint8", "bool", "int64", "O", "V8"]) | VALUES,
            **{name: hs.lists(NUMBERS, max_size=5) | VALUES for name in ("low", "high", "nvec")},
            **dict.fromkeys(("n", "start"), SIZES | VALUES),
        },
    ),
    lambda inner: hs.one_of(
        hs.builds(lambda x: {"type": "Tuple", "spaces": x}, hs.lists(inner, max_size=3)),
        hs.builds(
            lambda x: {"type": "Dict", "spaces": x},
            hs.lists(hs.tuples(TEXTS, inner).map(list), max_size=3),
        ),
    ),
    max_leaves=5,
)
ARRAYS = hn.arrays(
    hs.sampled_from([np.float32, np.float64, np.float16, np.int8, np.uint64, np.bool_]),
    hn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (3,)), "b": gym.spaces.Discrete(2)})
    blank_model(Config("CartPole-v1", hidden=(4,)), space, gym.spaces.Discrete(2)).save(path)
    return path


def opened(path, content):
    """Loads a model; an error must be one line that names the file."""
    path = path.with_name("strange.safetensors")
    path.write_bytes(content)
    try:
        Model.load(path)
    except UsageError as error:
        said = str(error)
        assert said.startswith(str(path))
        assert said.isprintable()
        assert len(said) < len(str(path)) + 500


def try_edited_bytes(good, data):
    content = bytearray(good.read_bytes())
    header = int.from_bytes(content[:8], "little")
    # Half of the edits go where the structure is.
    place = hs.integers(0, len(content) - 1) | hs.integers(0, 8 + header - 1)
    for at, byte in data.draw(hs.lists(hs.tuples(place, hs.integers(0, 255)), max_size=6)):
        content[at] = byte
    begin, end = sorted(data.draw(hs.tuples(place, place)))
    match data.draw(hs.sampled_from(["keep", "cut", "take out", "repeat", "insert"])):
        case "cut":
            del content[begin:]
        case "take out":
            del content[begin:end]
        case "repeat":
            content[end:end] = content[begin:end]
        case "insert":
            content[begin:begin] = data.draw(hs.binary(max_size=20))
    opened(good, bytes(content))


def try_edited_header(good, data):
    said, arrays = unpack(good)
    # One part at a time: what is wrong with the first would hide the others.
    match data.draw(
        hs.sampled_from(["config", "observation_space", "action_space", "array", "any"])
    ):
        case "config":
            said["config"] = json.dumps(json.loads(said["config"]) | data.draw(SETTINGS))
        case "array":
            arrays[data.draw(hs.sampled_from([*arrays, "more"]))] = data.draw(ARRAYS)
        case "any":
            said[data.draw(hs.sampled_from(sorted(said)))] = json.dumps(data.draw(VALUES))
        case space:
            said[space] = json.dumps(data.draw(SPACES))
    opened(good, pack(arrays, said))


def try_edited_json(good, data):
    said, arrays = unpack(good)
    name = data.draw(hs.sampled_from(["config", "observation_space", "action_space"]))
    text = list(said[name])
    for _ in range(data.draw(hs.integers(1, 3))):
        at = data.draw(hs.integers(0, len(text) - 1))
        text[at] = data.draw(hs.sampled_from(list('0123456789-.eE[]{}":,ntf \\')))
    opened(good, pack(arrays, {**said, name: "".join(text)}))


TRIES = [try_edited_bytes, try_edited_header, try_edited_json]


@pytest.mark.parametrize("attempt", TRIES)
def test_a_model_file_is_read_or_refused(attempt, good):
    OFTEN(given(hs.data())(lambda data: attempt(good, data)))()


@pytest.mark.slow
@pytest.mark.parametrize("attempt", TRIES)
def test_ten_thousand_model_files_are_read_or_refused(attempt, good):
    VERY_OFTEN(given(hs.data())(lambda data: attempt(good, data)))()


@given(hs.text(max_size=12) | hs.from_regex(r"[+-]?[0-9_.]{0,6}(e[+-]?[0-9]{0,4})?[kKmMgG]?"))
@settings(OFTEN, max_examples=500)
def test_a_number_of_steps_is_read_or_refused(text):
    try:
        assert parse_steps(text) >= 1
    except UsageError as error:
        assert "is not a number of steps; write 1_000_000, 1e6 or 1M" in str(error)


WORDS = hs.one_of(
    hs.text(max_size=8),
    hs.from_regex(r"-?[0-9]{1,30}(\.[0-9]*)?(e[0-9]{1,3})?", fullmatch=True),
    hs.sampled_from(
        ["nan", "inf", "-inf", "None", "True", "", "1,2", "[]", "1e400", "٣", "--seed"]
    ),
)
FLAGS = hs.sampled_from(
    [f"--{name.replace('_', '-')}" for name in Config("x").to_dict() if name != "env_id"]
    + ["-n", "--eval-episodes", "--run-dir", "--no-normalize-obs"]
)


@given(hs.lists(hs.tuples(FLAGS, hs.lists(WORDS, min_size=1, max_size=2)), max_size=2))
@settings(OFTEN, max_examples=60)
def test_arguments_are_accepted_or_refused_with_one_line(options):
    words = ["train", "CartPole-v1"]
    for flag, values in options:
        words += [flag, *values]
    complaint = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(complaint):
        patch.setattr(cli, "_run", lambda call: 0)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                code = cli.main(words)
            except SystemExit as stop:  # A word may be --help.
                code = stop.code
    said = complaint.getvalue()
    assert (code, said) == (0, "") or (code == 2 and said.startswith("capo: "))
    assert said == "" or (said.endswith("\n") and said[:-1].isprintable())


def merged(good, changes):
    """The values of a valid file with some replaced; random values if there are none."""
    return json.dumps({**good, **changes} if isinstance(changes, dict) else changes)


ROWS = hs.lists(
    hs.dictionaries(hs.sampled_from(["steps", "return", "seconds", "fisher/signal"]), LEAVES)
    | VALUES,
    max_size=4,
)
CONFIGS = hs.dictionaries(
    hs.sampled_from(["env_id", "algo", "seed", "total_steps", "hidden"]), VALUES
)
MANIFESTS = hs.dictionaries(hs.sampled_from(["versions", "started", "status", "command"]), VALUES)


@given(
    CONFIGS | hs.dictionaries(TEXTS, VALUES, max_size=2) | VALUES,
    MANIFESTS | VALUES,
    hs.dictionaries(hs.sampled_from(["mean", "standard_error"]), VALUES) | VALUES,
    ROWS,
    hs.binary(max_size=30),
)
@settings(OFTEN, max_examples=70)
def test_a_run_folder_is_read_or_refused(
    tmp_path_factory, config, manifest, evaluation, rows, rest
):
    folder = tmp_path_factory.mktemp("fuzz")
    make_run(folder / "good", score=3.0)
    run = make_run(folder / "strange", seed=2)
    known = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(merged(known, config))
    (run / "manifest.json").write_text(merged({}, manifest))
    (run / "eval.json").write_text(merged({"mean": 1.0}, evaluation))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run / "metrics.jsonl").write_bytes(text.encode() + rest)
    for words in (["list", str(folder)], ["list", str(folder), "--json"]):
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(words) == 0
    try:
        found = compare([read(folder / "good"), read(run)])
    except UsageError as error:
        assert str(run) in str(error)
        return
    assert text_table(found.results, found.overall, 0.95).replace("\n", "").isprintable()
    assert report_page(found, "capo compare")
    assert table_csv(found.results, found.overall, 0.95)
    assert curves_csv(found.curves)
    assert all(not math.isnan(result.mean) for result in found.results)
