"""Signal and waste of the unmodified PPO of Stable-Baselines3 (extra sb3)."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common import distributions
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.vec_env import VecNormalize

from capo.core.families import Bernoulli, Categorical, DiagGaussian, MultiCategorical
from capo.core.family import Family
from capo.core.fisher import Apply, Experience, Geometry
from capo.core.ppo import standardize
from capo.diagnostics.trials import Trial
from capo.envs.base import quiet
from capo.envs.registry import check_registered, import_module_of, split_id
from capo.errors import UsageError, check_least

UNLIMITED_STEPS = 10**12
"""Steps of a `learn` that ends by its callback."""
ACTIVATIONS = {
    "Tanh": jnp.tanh,
    "ReLU": jax.nn.relu,
    "ELU": jax.nn.elu,
    "LeakyReLU": jax.nn.leaky_relu,
    "SiLU": jax.nn.silu,
    "GELU": functools.partial(jax.nn.gelu, approximate=False),
}


def _forward(activation, params: dict[str, Any], features):
    """Distribution parameters of an SB3 MlpPolicy from its flattened observations."""
    x = features
    *hidden, head = params["layers"]
    for weight, bias in hidden:
        x = activation(x @ weight.T + bias)
    x = x @ head[0].T + head[1]
    if "log_std" not in params:
        return x
    return jnp.concatenate([x, jnp.broadcast_to(params["log_std"], x.shape)], axis=-1)


APPLY: dict[str, Apply] = {
    name: functools.partial(_forward, function) for name, function in ACTIVATIONS.items()
}


def read_policy(model: PPO) -> tuple[Family, Apply, dict[str, Any]]:
    """The family, the forward pass and a copy of the parameters of a model's policy."""
    policy = model.policy
    modules = list(policy.mlp_extractor.policy_net)
    linear = [m for m in modules if isinstance(m, torch.nn.Linear)]
    kinds = {type(m).__name__ for m in modules if not isinstance(m, torch.nn.Linear)} or {"Tanh"}
    if list(policy.pi_features_extractor.parameters()) or len(kinds) != 1:
        raise UsageError(
            "only an MlpPolicy of Stable-Baselines3 can be split into signal and waste"
        )
    kind = kinds.pop()
    if kind not in APPLY:
        known = ", ".join(APPLY)
        raise UsageError(f"the activation {kind} is not supported; it must be one of {known}")
    layers = [(_array(m.weight), _array(m.bias)) for m in (*linear, policy.action_net)]
    params: dict[str, Any] = {"layers": layers}
    family = _family(policy.action_dist)
    if isinstance(family, DiagGaussian):
        params["log_std"] = _array(policy.log_std)
    return family, APPLY[kind], params


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()


def _family(dist: distributions.Distribution) -> Family:
    if type(dist) is distributions.DiagGaussianDistribution:
        return DiagGaussian(dist.action_dim)
    if isinstance(dist, distributions.CategoricalDistribution):
        return Categorical(dist.action_dim)
    if isinstance(dist, distributions.MultiCategoricalDistribution):
        return MultiCategorical(tuple(int(n) for n in dist.action_dims))
    if isinstance(dist, distributions.BernoulliDistribution):
        return Bernoulli(dist.action_dims)
    raise UsageError(f"the distribution {type(dist).__name__} is not supported (use_sde=False is)")


def read_rollout(model: PPO, family: Family) -> Experience:
    """The rollout buffer in one axis; advantages are standardised if the model does so."""
    buffer, policy = model.rollout_buffer, model.policy
    obs, actions, advantages = (
        x if buffer.generator_ready else buffer.swap_and_flatten(x)
        for x in (buffer.observations, buffer.actions, buffer.advantages)
    )
    tensor = torch.as_tensor(np.asarray(obs), device=model.device)
    space = policy.observation_space
    with torch.no_grad():
        inputs = preprocess_obs(tensor, space, normalize_images=policy.normalize_images)
        features = _array(policy.pi_features_extractor(inputs))
    if isinstance(family, Categorical):
        actions = actions.reshape(-1)
    if not isinstance(family, DiagGaussian):
        actions = actions.astype(np.int32)
    advantages = np.asarray(advantages, np.float64).reshape(-1)
    if model.normalize_advantage:
        advantages = standardize(advantages)
    return Experience(features, actions.copy(), advantages)


class FisherCallback(BaseCallback):
    """Splits the updates of an unmodified PPO into signal and waste, and logs them by SB3's logger.

    `model.learn(…, callback=FisherCallback())` records `fisher/signal`, `fisher/waste`,
    `fisher/alignment` and the other fields of `capo.core.fisher.Decomposition` next to SB3's
    `train/…`. `every` is the interval in updates; `options` are those of
    `capo.core.natural_gradient.natural_gradient`.
    """

    def __init__(self, every: int = 1, verbose: int = 0, **options: Any):
        super().__init__(verbose)
        check_least("every", every)
        self.every, self.options = every, options
        self.last: dict[str, float] = {}
        """The decomposition of the last update that was split."""
        self._count = 0
        self._pending: tuple[Family, Apply, dict[str, Any], Experience] | None = None

    def _on_rollout_end(self) -> None:
        if self._count % self.every == 0:
            family, apply, params = read_policy(self.model)
            self._pending = (family, apply, params, read_rollout(self.model, family))
        self._count += 1

    def _on_rollout_start(self) -> None:
        self._split_pending()

    def _on_training_end(self) -> None:
        if self._split_pending():
            self.logger.dump(self.num_timesteps)

    def _on_step(self) -> bool:
        return True

    def _split_pending(self) -> bool:
        """Decomposes the update since the last rollout, if it is due; returns whether it was."""
        if self._pending is None:
            return False
        family, apply, before, data = self._pending
        self._pending = None
        split = Geometry(family, before, data, apply, **self.options).decompose(
            read_policy(self.model)[2]
        )
        self.last = {name: float(value) for name, value in split._asdict().items()}
        for name, value in self.last.items():
            self.logger.record(f"fisher/{name}", value)
        return True


class _Repeat(BaseCallback):
    """Repeats the update after each rollout, from the same policy and optimizer state."""

    def __init__(self, epochs: Sequence[int], experts: int, batches: int, seed: int):
        super().__init__()
        self.epochs, self.experts, self.batches, self.seed = epochs, experts, batches, seed
        self.trials: list[Trial] = []
        self._state: Any = None
        self._rollouts = 0

    def _on_step(self) -> bool:
        return len(self.trials) < self.batches

    def _on_rollout_start(self) -> None:
        if self._state is not None:
            self._restore()

    def _on_rollout_end(self) -> None:
        policy = self.model.policy
        self._state = jax.tree.map(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x,
            (policy.state_dict(), policy.optimizer.state_dict()),
        )
        self._rollouts += 1
        if self._rollouts == 1:
            return  # all episodes of the first rollout have just begun
        family, apply, before = read_policy(self.model)
        data = read_rollout(self.model, family)
        after: dict[int, list[Any]] = {depth: [] for depth in self.epochs}
        for expert in range(self.experts):
            self._restore()
            # Stable-Baselines3 shuffles with NumPy's global generator.
            np.random.seed([self.seed, self._rollouts, expert])  # noqa: NPY002
            done = 0
            for depth in self.epochs:
                self.model.n_epochs = depth - done
                self.model.train()
                after[depth].append(read_policy(self.model)[2])
                done = depth
        self.model.n_epochs = 1
        self.trials.append(Trial(family, apply, before, data, after))

    def _restore(self) -> None:
        weights, moments = self._state
        self.model.policy.load_state_dict(weights)
        copied = jax.tree.map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, moments)
        self.model.policy.optimizer.load_state_dict(copied)


def load(path: Path, env_id: str, seed: int = 0, statistics: Path | None = None) -> PPO:
    """Loads a saved PPO and makes its environments. Unpickles: only for files you trust.

    `statistics` is the VecNormalize file of a model that was trained with one.
    """
    import_module_of(env_id)
    check_registered(env_id)
    try:
        model = PPO.load(path, device="cpu")
    except Exception as error:
        raise UsageError(f"{path} is not a readable Stable-Baselines3 PPO: {error}") from error
    with quiet(gym.spec(split_id(env_id)[1])):
        env = make_vec_env(env_id, n_envs=model.n_envs, seed=seed)
    if statistics is not None:
        env = VecNormalize.load(str(statistics), env)
        env.training = False
    try:
        model.set_env(env)
    except ValueError as error:
        raise UsageError(f"{path} does not fit {env_id}: {error}") from error
    read_policy(model)
    return model


def trials(
    model: PPO, epochs: Sequence[int], experts: int, batches: int, seed: int
) -> Iterator[Trial]:
    """Collects fresh batches and repeats the model's own `train()` K times on each.

    Every update starts from the saved Adam moments and the initial learning rate of the schedule.
    """
    model.verbose, model.target_kl, model.tensorboard_log = 0, None, None
    repeat = _Repeat(epochs, experts, batches, seed)
    model.learn(UNLIMITED_STEPS, callback=repeat)
    yield from repeat.trials
