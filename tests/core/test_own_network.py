"""Networks of one's own: trained, saved, and refused where only a file names them."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capo import CAPO, PPO, UsageError
from capo.cli.main import main
from capo.core import own_network
from capo.core.own_network import OwnNetwork, make_own, register_network
from support.commands import TINY
from support.equality import same
from support.learners import BATCH, learn, learner
from support.probes import Target

KEY = jax.random.key(0)
MODULE = """
import equinox as eqx
import jax


def narrow(key, shape, outputs):
    return eqx.nn.MLP(shape[0], outputs, 4, 1, activation=jax.nn.silu, key=key)
"""


def wavy(key, shape, outputs):
    """An activation that capo does not have."""
    return eqx.nn.MLP(shape[0], outputs, 4, 1, activation=jnp.sin, key=key)


def plain(key, shape, outputs):
    return eqx.nn.Linear(shape[0], outputs, key=key)


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """The names as they were, afterwards."""
    monkeypatch.setattr(own_network, "_makers", {})


def test_any_leading_axes_on_the_host_as_on_a_device():
    network = make_own(wavy, KEY, (3,), 2)
    x = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    wanted = jax.vmap(jax.vmap(wavy(KEY, (3,), 2)))(x)
    found = network(x)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(network(jnp.asarray(x)), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(network(x[0, 0]), wanted[0, 0], rtol=1e-5, atol=1e-6)


def test_the_leaves_are_arrays():
    """So that experts can be stacked, averaged and raveled as any other policy."""
    network = make_own(wavy, KEY, (3,), 2)
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(network))


@pytest.mark.parametrize("algo", [PPO, CAPO])
def test_a_method_trains_it(algo):
    model = learn(2, algo, policy=wavy)
    assert isinstance(model.policy.net, OwnNetwork)
    assert isinstance(model.model.critic.net, OwnNetwork)
    assert not same(model.policy, learner(algo, policy=wavy).policy)
    assert model.evaluate(2).returns


def test_policy_and_value_can_differ():
    model = learner(policy=(plain, wavy))
    policy, value = model.policy.net, model.model.critic.net
    assert isinstance(policy.rest, eqx.nn.Linear)
    assert isinstance(value.rest, eqx.nn.MLP)


def test_training_begins_with_the_arrays_of_a_module():
    module = plain(KEY, (1,), 1)
    model = learner(policy=module)
    np.testing.assert_array_equal(model.policy.net.arrays.weight, module.weight)
    assert not isinstance(model.model.critic.net, OwnNetwork), "the critic has the usual one"
    model.learn(BATCH, progress_bar=False)
    assert not np.array_equal(model.policy.net.arrays.weight, module.weight)


def test_saving_asks_for_the_function_again(tmp_path):
    model = learn(1, policy=wavy)
    model.save(tmp_path / "m")
    assert same(PPO.load(tmp_path / "m", env=Target).policy, model.policy)
    own_network._makers.clear()
    with pytest.raises(UsageError, match=r"is named by a file.*give it: policy=wavy"):
        PPO.load(tmp_path / "m", env=Target)
    with pytest.raises(UsageError, match="arrays missing or unknown"):
        register_network(plain)
        own_network._makers[f"{__name__}:wavy"] = own_network._makers[f"{__name__}:plain"]
        PPO.load(tmp_path / "m", env=Target)
    assert same(PPO.load(tmp_path / "m", env=Target, policy=wavy).policy, model.policy)


def test_the_command_line_names_it(elsewhere, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "narrow_nets.py").write_text(MODULE)
    run = ["train", "CartPole-v1", "--algo", "ppo", *TINY, "--eval-episodes", "0", "--run-dir", "r"]
    named = ["--network", "narrow_nets:narrow"]
    assert main([*run, *named]) == 0
    assert "capo eval r --episodes 100 --network narrow_nets:narrow" in capsys.readouterr().out
    own_network._makers.clear()
    assert main(["eval", "r"]) == 2
    assert "if you trust it, give it" in capsys.readouterr().err
    assert main(["eval", "r", "--episodes", "1", *named]) == 0
    own_network._makers.clear()
    more = ["train", "--resume", "r", "--override", "-n", "1k", "--eval-episodes", "0"]
    assert main([*more, *named]) == 0
    sys.modules.pop("narrow_nets")


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (lambda key, shape, outputs: plain(key, shape, 7), r"makes \(7,\) of an observation"),
        (lambda key, shape, outputs: plain(key, (9,), outputs), "fails on an observation of shape"),
        (lambda key: key, "is not a network: it is an Equinox module, or a function"),
        (3, "3 is not a network"),
        ("nowhere:network", "unknown policy"),
    ],
)
def test_what_is_no_network_is_one_line(network, said):
    with pytest.raises(UsageError, match=said) as error:
        learner(policy=network)
    assert "\n" not in str(error.value)
