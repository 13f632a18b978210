"""Grids of runs from words: seeds, values of settings, every combination."""

import pytest

from capo import Config, UsageError, zoo
from capo.cli.arguments import parse_seeds
from capo.cli.main import parse
from capo.runs.options import Options
from capo.sweeps.grid import grid_runs, label_of, parse_values, seed_runs
from capo.sweeps.selection import task_space

TASK = "Acrobot-v1"


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (1, 2, 3)), ("1", (1,)), ("3-5", (3, 4, 5)), ("1,4,9", (1, 4, 9)), ("7-7", (7,)),
     ("1-2,9", (1, 2, 9))],
)  # fmt: skip
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "0", "a", "5-3", "1,1", "1-", "-3", "1-20000", "1.5"])
def test_what_are_no_seeds(text):
    with pytest.raises(UsageError, match="are no seeds; write 5 for the first five, 3-7, or 1,4,9"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("learning_rate=3e-4,1e-3", ("learning_rate", (3e-4, 1e-3))),
        ("gae-lambda=0.9", ("gae_lambda", (0.9,))),
        ("hidden=[64, 64],[32]", ("hidden", ((64, 64), (32,)))),
        ("normalize_obs=true,False", ("normalize_obs", (True, False))),
        ("target_kl=none,0.02", ("target_kl", (None, 0.02))),
        ("schedule=linear,constant", ("schedule", ("linear", "constant"))),
        ("total_steps=100k,1M", ("total_steps", (100_000, 1_000_000))),
    ],
)
def test_values_of_a_setting(text, parsed):
    assert parse_values(text) == parsed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gamma", "'gamma' is no setting with values; write learning_rate=3e-4,1e-3"),
        ("gamma=", "is no setting with values"),
        ("gama=0.9", "there is no field 'gama' in capo.Config; did you mean gamma"),
        ("seed=1,2", "seed is not for --set; use --seeds"),
    ],
)
def test_what_is_no_setting(text, said):
    with pytest.raises(UsageError, match=said):
        parse_values(text)


def test_a_grid_has_every_combination_and_the_first_seeds_first():
    values = [("gamma", (0.9, 0.99)), ("epochs", (2, 3))]
    runs = grid_runs([TASK], ["ppo", "capo"], (1, 2), values, total_steps=10_000)
    assert len(runs) == 2 * 2 * 4
    assert [run.config.seed for run in runs] == [1] * 8 + [2] * 8
    chosen = {(r.config.algo, r.config.gamma, r.config.epochs) for r in runs}
    assert chosen == {(a, g, e) for a in ("ppo", "capo") for g in (0.9, 0.99) for e in (2, 3)}
    assert {run.config.total_steps for run in runs} == {10_000}
    assert len({run.name for run in runs}) == 16


def test_a_grid_takes_the_zoo_and_values_go_before_it():
    row = zoo.row(TASK, "ppo")
    (run,) = grid_runs([TASK], ["ppo"], (1,), [("num_envs", (8,))])
    assert run.config.learning_rate == row["learning_rate"]
    assert run.config.num_envs == 8 != row["num_envs"]
    (plain,) = grid_runs([TASK], ["ppo"], (1,), [], preset="default")
    assert plain.config.learning_rate == Config.learning_rate


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([("gamma", (0.9,)), ("gamma", (0.99,))], "--set gamma=… is there twice"),
        ([("gamma", (0.9, 0.9))], "two runs of the grid are the same"),
        ([("gamma", tuple(range(20_000)))], "the grid has 20000 runs; it must have 1 to 10000"),
        ([("gamma", (2.0,))], "gamma is 2.0; it must be between 0 and 1"),
    ],
)
def test_wrong_grids(values, said):
    with pytest.raises(UsageError, match=said):
        grid_runs([TASK], ["ppo"], (1,), values)


def test_labels_are_names_of_folders():
    label = label_of("my/tasks:Odd-v0", "capo_avg", {"hidden": (8, 8), "schedule": "linear"})
    assert label == "my-tasks-Odd-v0__capo-avg__hidden=8-8__schedule=linear"


def test_the_seeds_of_a_configuration():
    runs = seed_runs(Config(TASK, "ppo", gamma=0.9), (3, 5))
    assert [run.name for run in runs] == [f"{TASK}__ppo__3", f"{TASK}__ppo__5"]
    assert [run.config.gamma for run in runs] == [0.9, 0.9]


def test_options_are_words_of_the_command_line():
    """Parsed again they are the same options."""
    options = Options(eval_every=1000, eval_episodes=3, env_timeout=None, checkpoint_every=0)
    call = parse(["train", TASK, *options.words()])
    assert call.keywords["run"] == options
    assert Options().words() == ()


def test_a_task_is_asked_for_its_space_in_its_wrappers():
    """The network follows from what it sees, as in `capo train`."""
    timed = ("gymnasium.wrappers:TimeAwareObservation",)
    assert task_space("CartPole-v1").shape == (4,)
    assert task_space("CartPole-v1", wrappers=timed).shape == (5,)
