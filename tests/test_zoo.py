"""Settings of the zoo: what has them, what goes before them, what leaves them out."""

import gymnasium as gym
import pytest

from capo import CAPO, PPO, Config, zoo
from capo.cli.main import parse
from capo.methods import METHODS, settle
from capo.presets import preset_values

CARTPOLE = zoo.row("CartPole-v1", "ppo")


def config_of(*words):
    """The configuration that `capo train` would train."""
    return parse(["train", *words]).keywords["config"]


@pytest.mark.parametrize("algo", METHODS)
@pytest.mark.parametrize("task", zoo.tasks())
def test_every_row_is_a_configuration(task, algo):
    row = zoo.row(task, algo)
    assert row["total_steps"] >= 1
    config = settle(Config(task, algo, **row))
    assert config.num_generations >= 5


def test_capo_avg_has_the_row_of_capo():
    for task in zoo.tasks():
        assert zoo.row(task, "capo-avg") == zoo.row(task, "capo") == zoo.row(task, "capo_avg")


def test_a_task_without_a_row_has_the_defaults():
    assert zoo.row("Nothing-v0", "ppo") == {}
    config = config_of("Nothing-v0")
    assert config.replace(preset="default") == Config("Nothing-v0")


def test_the_command_line_takes_the_row():
    config = config_of("CartPole-v1", "--algo", "ppo")
    assert config.preset == "auto"
    assert {name: getattr(config, name) for name in CARTPOLE} == CARTPOLE
    assert config_of("--algo=ppo", "--seed", "3", "CartPole-v1").epochs == CARTPOLE["epochs"]


def test_flags_go_before_the_row():
    config = config_of("CartPole-v1", "--algo", "ppo", "--gamma", "0.9", "-n", "4k")
    assert (config.gamma, config.total_steps) == (0.9, 4000)
    assert config.learning_rate == CARTPOLE["learning_rate"]


@pytest.mark.parametrize("preset", ["default", "corrected", "paper"])
def test_another_preset_leaves_the_row_out(preset):
    config = config_of("CartPole-v1", "--preset", preset)
    assert config == Config("CartPole-v1", preset=preset)


def test_a_task_in_another_place_is_not_taken():
    config = config_of("Nothing-v0", "--run-dir", "CartPole-v1")
    assert config.epochs == Config.epochs


def test_classes_take_the_row_and_keywords_go_before_it():
    model = PPO("MlpPolicy", "CartPole-v1", gamma=0.9)
    assert (model.config.gamma, model.config.epochs) == (0.9, CARTPOLE["epochs"])
    plain = CAPO("MlpPolicy", "CartPole-v1", preset="default").config
    assert plain.num_steps == preset_values("default", "capo")["num_steps"]


def test_a_single_environment_keeps_the_size_of_a_batch():
    config = PPO("MlpPolicy", gym.make("CartPole-v1")).config
    assert (config.num_envs, config.num_steps) == (1, Config.num_envs * CARTPOLE["num_steps"])
    assert config.epochs == CARTPOLE["epochs"]
