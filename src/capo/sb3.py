"""The same instrument for Stable-Baselines3: its PPO, as it is (pip install 'capo-rl[sb3]')."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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

from capo.config import UsageError, check_least
from capo.envs import quiet
from capo.families import Bernoulli, Categorical, DiagGaussian, Family, MultiCategorical
from capo.fisher import Apply, Experience, Geometry
from capo.ppo import standardize
from capo.registry import check_registered, import_module_of
from capo.study import Trial

AS_LONG_AS_IT_TAKES = 10**12
ACTIVATIONS = {
    "Tanh": jnp.tanh,
    "ReLU": jax.nn.relu,
    "ELU": jax.nn.elu,
    "LeakyReLU": jax.nn.leaky_relu,
    "SiLU": jax.nn.silu,
    "GELU": functools.partial(jax.nn.gelu, approximate=False),
}


def _forward(activation, params: dict[str, Any], features):
    """Distribution parameters of an SB3 MlpPolicy, from its flattened observations."""
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
    """The family, the forward pass and the parameters of a model's policy, as it is now."""
    policy = model.policy
    modules = list(policy.mlp_extractor.policy_net)
    linear = [m for m in modules if isinstance(m, torch.nn.Linear)]
    kinds = {type(m).__name__ for m in modules if not isinstance(m, torch.nn.Linear)} or {"Tanh"}
    if list(policy.pi_features_extractor.parameters()) or len(kinds) != 1:
        raise UsageError("only Stable-Baselines3's MlpPolicy can be split into signal and waste")
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
    """The rollout buffer in one axis; advantages are standardised if the model does it."""
    buffer, policy = model.rollout_buffer, model.policy
    obs, actions, advantages = (
        x if buffer.generator_ready else buffer.swap_and_flatten(x)
        for x in (buffer.observations, buffer.actions, buffer.advantages)
    )
    tensor = torch.as_tensor(np.asarray(obs), device=model.device)
    space = policy.observation_space
    with torch.no_grad():
        seen = preprocess_obs(tensor, space, normalize_images=policy.normalize_images)
        features = _array(policy.pi_features_extractor(seen))
    if isinstance(family, Categorical):
        actions = actions.reshape(-1)
    if not isinstance(family, DiagGaussian):
        actions = actions.astype(np.int32)
    gains = np.asarray(advantages, np.float64).reshape(-1)
    if model.normalize_advantage:
        gains = standardize(gains)
    return Experience(features, actions.copy(), gains)


class FisherCallback(BaseCallback):
    """Splits every update of an unmodified PPO into signal and waste, into SB3's own logger.

    `model.learn(…, callback=FisherCallback())` records `fisher/signal`, `fisher/waste`,
    `fisher/alignment` and the other fields of `fisher.Decomposition` beside SB3's `train/…`.
    `every` is how many updates apart; `options` are those of `krylov.natural_gradient`.
    """

    def __init__(self, every: int = 1, verbose: int = 0, **options: Any):
        super().__init__(verbose)
        check_least("every", every)
        self.every, self.options = every, options
        self.last: dict[str, float] = {}
        """The numbers of the last update that was looked at."""
        self._count = 0
        self._pending: tuple[Family, Apply, dict[str, Any], Experience] | None = None

    def _on_rollout_end(self) -> None:
        if self._count % self.every == 0:
            family, apply, params = read_policy(self.model)
            self._pending = (family, apply, params, read_rollout(self.model, family))
        self._count += 1

    def _on_rollout_start(self) -> None:
        self._finish()

    def _on_training_end(self) -> None:
        if self._finish():
            self.logger.dump(self.num_timesteps)

    def _on_step(self) -> bool:
        return True

    def _finish(self) -> bool:
        """Decomposes the update since the last rollout, if there was one to look at."""
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
            return  # the episodes have all just begun
        family, apply, before = read_policy(self.model)
        data = read_rollout(self.model, family)
        after: dict[int, list[Any]] = {depth: [] for depth in self.epochs}
        for expert in range(self.experts):
            self._restore()
            # Stable-Baselines3 shuffles by NumPy's global generator.
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
    """Reads a saved PPO and gives it environments. Unpickles: only for files you trust.

    `statistics` is the file of its VecNormalize, if it was trained with one.
    """
    import_module_of(env_id)
    check_registered(env_id)
    try:
        model = PPO.load(path, device="cpu")
    except Exception as error:
        raise UsageError(f"{path} is not a readable Stable-Baselines3 PPO: {error}") from error
    with quiet():
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
    """Collects fresh batches and repeats the model's own `train()` on each, K times by depth.

    Starts from the saved Adam moments, at the beginning of the learning rate's schedule.
    """
    model.verbose, model.target_kl, model.tensorboard_log = 0, None, None
    repeat = _Repeat(epochs, experts, batches, seed)
    model.learn(AS_LONG_AS_IT_TAKES, callback=repeat)
    yield from repeat.trials
