"""Diagnostics of Stable-Baselines3 models, compared with PyTorch and with our own networks."""

import re
import textwrap
from pathlib import Path

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="make test-peers installs it")
pytest.importorskip("stable_baselines3", reason="make test-peers installs it")

from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.logger import configure  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from capo import sb3  # noqa: E402
from capo.cli.main import main  # noqa: E402
from capo.core.families import DiagGaussian  # noqa: E402
from capo.core.fisher import Geometry, decompose  # noqa: E402
from capo.core.networks import MLP, Policy  # noqa: E402
from capo.errors import UsageError  # noqa: E402

ACTIONS = {
    "Gaussian": gym.spaces.Box(-1, 1, (2,), np.float32),
    "Categorical": gym.spaces.Discrete(3),
    "MultiCategorical": gym.spaces.MultiDiscrete([2, 3]),
    "Bernoulli": gym.spaces.MultiBinary(3),
}
every_space = pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS.keys())
SIZES = {"n_steps": 64, "batch_size": 16, "n_epochs": 3, "seed": 0, "device": "cpu"}


class Guess(gym.Env):
    """Rewards actions near the observation; twenty steps an episode."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def _see(self):
        self.obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.obs

    def step(self, action):
        reward = -abs(float(np.mean(action)) - float(self.obs[0]))
        self.t += 1
        return self._see(), reward, self.t == 20, False, {}


class Recorder(sb3.FisherCallback):
    """Records every update with its diagnostics."""

    def __init__(self, **options):
        super().__init__(**options)
        self.updates = []

    def _split_pending(self):
        pending = self._pending
        if done := super()._split_pending():
            self.updates.append((pending, sb3.read_policy(self.model)[2], self.last))
        return done


def model_for(space, **options):
    return PPO("MlpPolicy", Guess(space), **SIZES, **options)


def train(space, updates=2, **options):
    model, recorder = model_for(space, **options), Recorder()
    model.learn(64 * updates, callback=recorder)
    return model, recorder


def as_ours(params, family):
    """The same weights in a network of ours."""
    weights, biases = zip(*((w.T, b) for w, b in params["layers"]), strict=True)
    return Policy(MLP(weights, biases), params.get("log_std"), family)


@every_space
def test_numbers_agree_with_ours_on_the_same_weights_and_batch(space):
    _, recorder = train(space)
    assert len(recorder.updates) == 2
    for (family, _, before, data), after, numbers in recorder.updates:
        ours = decompose(family, as_ours(before, family), as_ours(after, family), data)
        # Parameters are ordered differently, so the same sums round differently.
        for name in ("c", "signal", "waste", "total", "alignment", "kl", "gain", "gain_natural"):
            np.testing.assert_allclose(numbers[name], getattr(ours, name), rtol=1e-4, err_msg=name)
        assert numbers["total"] > 0


@every_space
def test_gradient_and_fisher_agree_with_pytorch(space):
    """g and F v by PyTorch's own derivatives of SB3's own log-densities and KL."""
    _, recorder = train(space, updates=1)
    (family, apply, before, data), _, _ = recorder.updates[0]
    fresh = model_for(space)  # the same seed: the weights before the update
    np.testing.assert_array_equal(sb3.read_policy(fresh)[2]["layers"][0][0], before["layers"][0][0])
    policy = fresh.policy.double()
    obs, actions = torch.as_tensor(data.obs).double(), torch.as_tensor(data.actions)

    def distribution():
        return policy._get_action_dist_from_latent(policy.mlp_extractor.forward_actor(obs))

    geometry = Geometry(family, before, data, apply)
    layers = [*(m for m in policy.mlp_extractor.policy_net if isinstance(m, torch.nn.Linear))]
    layers.append(policy.action_net)
    wanted = [p for layer in layers for p in (layer.weight, layer.bias)]
    if isinstance(family, DiagGaussian):
        wanted.append(policy.log_std)

    def flat(tensors):
        return torch.cat([t.reshape(-1) for t in tensors])

    log_prob = distribution().log_prob(actions if actions.is_floating_point() else actions.double())
    surrogate = torch.mean(torch.as_tensor(data.advantages) * log_prob)
    gradient = flat(torch.autograd.grad(surrogate, wanted))
    # PyTorch and JAX list layers first and log std last, so the order is the same.
    np.testing.assert_allclose(geometry.gradient, gradient.detach(), rtol=1e-8, atol=1e-12)

    now = distribution().distribution
    with torch.no_grad():
        start = distribution().distribution
    pairs = zip(start, now, strict=True) if isinstance(now, list) else [(start, now)]
    kl = [torch.distributions.kl_divergence(a, b).reshape(len(obs), -1).sum(1) for a, b in pairs]
    slope = flat(torch.autograd.grad(torch.stack(kl).sum(0).mean(), wanted, create_graph=True))
    v = np.random.default_rng(0).standard_normal(geometry.theta.size)
    product = flat(torch.autograd.grad(slope @ torch.as_tensor(v), wanted))
    np.testing.assert_allclose(geometry.product(v), product, rtol=1e-7, atol=1e-12)


@every_space
def test_the_forward_pass_equals_stable_baselines3(space):
    model = model_for(space, policy_kwargs={"net_arch": [16, 8], "activation_fn": torch.nn.ReLU})
    family, apply, params = sb3.read_policy(model)
    obs = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    space.seed(0)
    actions = np.stack([space.sample() for _ in range(5)])
    with torch.no_grad():
        seen = torch.as_tensor(obs), torch.as_tensor(actions, dtype=torch.float32)
        _, theirs, _ = model.policy.evaluate_actions(*seen)
    ours = family.log_prob(apply(params, jnp.asarray(obs)), jnp.asarray(actions))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)  # float32


def test_every_update_reaches_their_logger(tmp_path):
    model = model_for(ACTIONS["Gaussian"])
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(64 * 3, callback=sb3.FisherCallback())
    model.logger.close()
    header, *rows = (tmp_path / "progress.csv").read_text().splitlines()
    column = header.split(",").index("fisher/alignment")
    found = [row.split(",")[column] for row in rows]
    assert found[0] == "", "the first line comes before the first update"
    alignments = [float(cell) for cell in found[1:]]
    assert len(alignments) == 3
    assert all(0 <= a <= 1 for a in alignments)


def test_the_callback_does_not_change_the_training():
    space = ACTIONS["Categorical"]
    watched, _ = train(space)
    alone = model_for(space)
    alone.learn(64 * 2)
    for a, b in zip(watched.policy.parameters(), alone.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_code_on_the_diagnostics_page_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "diagnostics.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(textwrap.dedent("  " + block.lstrip()), page.name, "exec"), {})
    assert capsys.readouterr().out.count("fisher/ ") == 3, "6,000 steps are three updates"


def test_updates_can_be_diagnosed_at_an_interval():
    model, callback = model_for(ACTIONS["Bernoulli"]), Recorder(every=2)
    model.learn(64 * 5, callback=callback)
    assert len(callback.updates) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_sde": True}, "StateDependentNoiseDistribution is not supported"),
        ({"policy_kwargs": {"activation_fn": torch.nn.Softplus}}, "Softplus is not supported"),
    ],
)
def test_unsupported_models_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        sb3.read_policy(model_for(ACTIONS["Gaussian"], **options))


@pytest.fixture
def registered():
    gym.register("Guess-v0", lambda: Guess(ACTIONS["Gaussian"]))
    yield "Guess-v0"
    del gym.registry["Guess-v0"]


def test_a_saved_model_is_diagnosed(registered, tmp_path, capsys):
    env = VecNormalize(model_for(ACTIONS["Gaussian"]).get_env())
    model = PPO("MlpPolicy", env, **SIZES)
    model.learn(128)
    model.save(tmp_path / "theirs.zip")
    env.save(str(tmp_path / "stats.pkl"))
    words = ["--trust", "--env", registered, "--epochs", "1,3", "--experts", "2", "--batches", "2"]
    stats = ["--vec-normalize", str(tmp_path / "stats.pkl")]
    assert main(["diagnose", str(tmp_path / "theirs.zip"), *words, *stats]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Guess-v0, theirs.zip (Stable-Baselines3)")
    assert "2 batches × 2 shuffles" in said
    names = {"theirs.zip", "stats.pkl", "theirs-diagnose.json", "theirs-diagnose.png"}
    assert {p.name for p in tmp_path.iterdir()} == names


def test_repeated_updates_start_from_the_saved_policy(registered, tmp_path):
    model, _ = train(ACTIONS["Gaussian"])
    model.save(tmp_path / "m.zip")
    loaded = sb3.load(tmp_path / "m.zip", registered)
    saved = sb3.read_policy(model)[2]
    found = list(sb3.trials(loaded, (1, 2), experts=2, batches=2, seed=0))
    assert len(found) == 2
    for trial in found:
        for (a, _), (b, _) in zip(trial.before["layers"], saved["layers"], strict=True):
            np.testing.assert_array_equal(a, b)
        one, two = (trial.after[2][k]["layers"][0][0] for k in range(2))
        assert not np.array_equal(one, two), "another shuffle"


@pytest.mark.parametrize("content", [b"not a zip", b""])
def test_a_file_that_is_no_model_is_one_line(content, registered, tmp_path, capsys):
    file = tmp_path / "bad.zip"
    file.write_bytes(content)
    assert main(["diagnose", str(file), "--trust", "--env", registered]) == 2
    said = capsys.readouterr().err
    assert "is not a readable Stable-Baselines3 PPO" in said
    assert said.count("\n") == 1


def test_a_vec_env_trains_as_our_own_copies():
    """The same task and seeds: SB3 seeds its copies one apart, as capo does."""
    from capo import PPO as Ours

    sizes = {"num_envs": 3, "num_steps": 32, "minibatches": 2, "hidden": (4,)}
    theirs = DummyVecEnv([lambda: Guess(ACTIONS["Gaussian"])] * 3)
    sizes_given = {name: value for name, value in sizes.items() if name != "num_envs"}
    models = [
        Ours("MlpPolicy", theirs, **sizes_given),
        Ours("MlpPolicy", lambda: Guess(ACTIONS["Gaussian"]), **sizes),
    ]
    weights = [model.learn(192, progress_bar=False).policy.net.weights[0] for model in models]
    np.testing.assert_array_equal(*weights)
