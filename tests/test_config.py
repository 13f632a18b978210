"""Validation of the configuration: errors of one line that state what is allowed."""

import contextlib
import dataclasses
import math

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from capo import METHODS, Config, UsageError
from capo.config import nearest_divisor, parse_steps
from capo.methods import method_of, settle


@pytest.mark.parametrize(
    ("text", "steps"),
    [("1000000", 10**6), ("1_000_000", 10**6), ("1e6", 10**6), ("1M", 10**6), ("1.5m", 1_500_000),
     ("512k", 512_000), ("2G", 2 * 10**9), ("4096", 4096)],
)  # fmt: skip
def test_steps_are_read(text, steps):
    assert parse_steps(text) == steps


@pytest.mark.parametrize("text", ["", "M", "abc", "-5", "0", "1.5", "nan", "inf", "1e999", "1MM"])
def test_other_texts_are_not_steps(text):
    with pytest.raises(UsageError, match="is not a number of steps; write"):
        parse_steps(text)


@given(hs.text(max_size=12))
def test_any_text_is_a_number_of_steps_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse_steps(text) >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minibatches": 30}, "8 envs × 128 steps = 1024 samples do not divide into 30 "
                              "minibatches; try 32"),
        ({"experts": 0}, "experts is 0; it must be between 1 and 1000000"),
        ({"epochs": 0}, "epochs is 0; it must be between 1 and 1000000"),
        ({"num_envs": -1}, "num_envs is -1; it must be between 1 and 1000000"),
        ({"total_steps": 100}, "100 steps are fewer than one batch of 8 × 128 = 1024; use at least "
                               "-n 1024"),
        ({"learning_rate": math.nan}, "learning_rate is nan; it must be a finite number above 0"),
        ({"delta": -0.1}, "delta is -0.1; it must be a finite number above 0"),
        ({"gamma": 1.5}, "gamma is 1.5; it must be between 0 and 1"),
        ({"warmup": 2.0}, "warmup is 2.0; it must be between 0 and 1"),
        ({"target_kl": 0.0}, "target_kl is 0.0; it must be a finite number above 0"),
        ({"workers": -1}, "workers is -1; it must be at least 0"),
        ({"seed": -1}, "seed is -1; it must be between 0 and 2147483647"),
        ({"hidden": (8, 0)}, "hidden is (8, 0); it must be widths of at least 1"),
        ({"warmup_floor": math.nan}, "warmup_floor is nan; it must be a finite number"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(changes, message):
    with pytest.raises(UsageError) as error:
        Config("Hopper-v4", **changes)
    assert str(error.value) == message


def test_a_choice_outside_its_list_is_refused():
    values = {**Config("Hopper-v4").to_dict(), "carry": "none"}
    with pytest.raises(Exception, match="carry"):
        Config.from_dict(values)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("seed", True, "True; it must be a whole number"),
        ("seed", 1.0, "1.0; it must be a whole number"),
        ("gamma", "0.9", "'0.9'; it must be a number"),
        ("gamma", 10**400, "it must be a number"),
        ("normalize_obs", 1, "1; it must be true or false"),
        ("env_id", None, "None; it must be a text"),
        ("hidden", 64, "64; it must be a list of whole numbers"),
        ("hidden", [64, 6.5], "it must be a list of whole numbers"),
        ("hidden", [64, [64]], "it must be a list of whole numbers"),
        ("warmup_floor", "low", "'low'; it must be a number or null"),
        ("network", ["mlp"], "['mlp']; it must be a text"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_key(key, value, wanted):
    with pytest.raises(UsageError) as error:
        Config.from_dict({**Config("Hopper-v4").to_dict(), key: value})
    assert str(error.value).startswith(f"the configuration's {key} is ")
    assert wanted in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("values", [None, [], "x", {}, {"seed": 1}])
def test_other_objects_are_not_a_configuration(values):
    with pytest.raises(UsageError, match=r"configuration (is names and values|has no env_id)"):
        Config.from_dict(values)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_envs": 10**12, "num_steps": 10**12, "minibatches": 7},
        {"hidden": (4,) * 101},
        {"env_id": "x" * 201},
        {"env_id": "\x1b[2JHopper-v4"},
        {"algo": "ppo\n"},
    ],
)
def test_huge_values_are_refused_quickly(changes):
    with pytest.raises(
        UsageError, match=r"it must be (between 1 and 1000000|at most)|a name is printable"
    ):
        Config(**{"env_id": "Hopper-v4", **changes})


def test_an_unknown_method_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="unknown algorithm 'cappo'; did you mean capo"):
        method_of("cappo")


def test_base_optimizer_is_for_several_experts():
    with pytest.raises(UsageError, match=r"use algo=.trpo."):
        settle(Config("Hopper-v4", algo="ppo", base_optimizer="trpo"))


@given(size=hs.integers(1, 5000), wanted=hs.integers(1, 5000))
def test_the_suggested_divisor_divides_and_is_nearest(size, wanted):
    found = nearest_divisor(size, wanted)
    assert size % found == 0
    closer = [
        d for d in range(1, size + 1) if size % d == 0 and abs(d - wanted) < abs(found - wanted)
    ]
    assert not closer


def test_underscores_and_dashes_name_the_same_method():
    assert Config("Hopper-v4", algo="capo_avg") == Config("Hopper-v4", algo="capo-avg")
    assert set(METHODS) >= {"ppo", "ppo-kx", "ppo-swa", "best-of-k", "trpo", "capo-avg", "capo"}


@pytest.mark.parametrize("preset", ["paper", "corrected"])
def test_the_papers_values(preset):
    config = settle(Config("Hopper-v4", preset=preset), gym.spaces.Box(-1, 1, (11,)))
    paper = {
        "experts": 4, "hidden": (64, 64), "learning_rate": 3e-4, "adam_eps": 1e-5,
        "schedule": "linear", "gamma": 0.99, "gae_lambda": 0.95, "clip": 0.2, "entropy_coef": 0.0,
        "vf_coef": 0.5, "max_grad_norm": 0.5, "epochs": 10, "minibatches": 32, "num_steps": 512,
        "num_envs": 8, "base_optimizer": "ppo", "trpo_damping": 0.1, "trpo_cg_iters": 10,
        "warmup": 0.1, "target_kl": None, "diversity": "shuffle", "action_noise": 0.0,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in paper} == paper


@pytest.mark.parametrize(("annealed", "schedule"), [(True, "linear"), (False, "constant")])
def test_files_with_anneal_lr_are_read(annealed, schedule):
    values = Config("Hopper-v4").to_dict()
    del values["schedule"]
    assert Config.from_dict({**values, "anneal_lr": annealed}).schedule == schedule


def test_files_of_earlier_versions_say_off_in_other_words():
    new = Config("Hopper-v4")
    assert Config.from_dict({**new.to_dict(), "ema": 0.0, "outer_lr": 1.0, "target_kl": 0.0}) == new
    with pytest.raises(UsageError, match="unknown configuration keys: ema"):
        Config.from_dict({**new.to_dict(), "ema": 0.5})


def test_a_configuration_survives_conversion_to_plain_values():
    config = Config("Hopper-v4", algo="ppo", hidden=(8, 4), warmup_floor=3.0)
    assert Config.from_dict(config.to_dict()) == config
    with pytest.raises(UsageError, match="unknown configuration keys: bogus"):
        Config.from_dict({**config.to_dict(), "bogus": 1})
    assert dataclasses.asdict(config) == config.to_dict()
