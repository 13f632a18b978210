"""A saved policy: networks, statistics, spaces, configuration.

The file is safetensors: arrays by name and a JSON header. Reading it runs no code.
"""

import dataclasses
import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from capo.config import Config
from capo.core.encoding import Encoder, lead_of, network_for, prepare
from capo.core.families import family_for, to_env
from capo.core.networks import Critic, Policy, init_critic, init_policy
from capo.core.normalize import RunningStats
from capo.errors import UsageError
from capo.storage import tensors
from capo.storage.files import parse_json, write_atomic
from capo.storage.spaces import space_from_json, space_to_json

FORMAT = "capo-model"
SCHEMA = 2
SEALED = 2
"""The first schema with a digest; the spaces of schema 1 have every bound in full."""


@dataclass(frozen=True)
class Model:
    """Policy, critic, statistics, spaces and configuration."""

    config: Config
    observation_space: gym.Space
    action_space: gym.Space
    policy: Policy
    critic: Critic
    obs_stats: RunningStats
    return_stats: RunningStats

    def act(
        self,
        obs: np.ndarray,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> np.ndarray:
        """Actions for one encoded observation or a batch of them, within the action space.

        The most likely action, or one drawn from the policy with `rng`. A flat Box is its own code;
        `predict` takes the observations of every space.
        """
        obs, shape = np.asarray(obs), self.encoder.shape
        if obs.shape not in (shape, (*obs.shape[:1], *shape)):
            raise UsageError(f"an observation has shape {shape} or (n, *{shape}), not {obs.shape}")
        dist = self.policy(prepare(self.config, self.obs_stats, obs))
        family = self.policy.family
        if deterministic:
            action = family.mode(dist)
        else:
            noise = family.draw(rng or np.random.default_rng(), dist.shape[:-1])
            action = family.sample(dist, noise)
        return to_env(self.action_space, action)

    def predict(
        self,
        observation: Any,
        state: np.ndarray | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions for an observation of the environment, or n of them, as in Stable-Baselines3.

        `state` is what the last call returned, None at the beginning: the earlier frames of a model
        with `frame_stack`, which begin anew where `episode_start` is true. Others need neither.
        """
        lead = lead_of(self.observation_space, observation)
        encoder = self.encoder
        frame = encoder(observation, lead)
        fresh = encoder.first(frame)
        stack = fresh if state is None else encoder.then(state, frame)
        if state is not None and episode_start is not None:
            began = np.reshape(episode_start, (*lead, *[1] * (fresh.ndim - len(lead))))
            stack = np.where(began, fresh, stack)
        return self.act(stack, deterministic, rng), stack if encoder.frames > 1 else None

    def predict_values(self, observation: Any) -> np.ndarray:
        """V(s) of an observation of the environment, or of n, of the normalised rewards."""
        if self.encoder.frames > 1:
            raise UsageError("predict_values needs the earlier frames; use model.critic")
        frame = self.encoder(observation, lead_of(self.observation_space, observation))
        return np.asarray(self.critic(prepare(self.config, self.obs_stats, frame)))

    @functools.cached_property
    def encoder(self) -> Encoder:
        """Encoder from observations to inputs of the network."""
        return Encoder.of(self.config, self.observation_space)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file atomically."""
        header = {
            "format": FORMAT,
            "schema": str(SCHEMA),
            "config": json.dumps(self.config.to_dict()),
            "observation_space": json.dumps(space_to_json(self.observation_space)),
            "action_space": json.dumps(space_to_json(self.action_space)),
        }
        write_atomic(Path(path), tensors.pack(self._arrays(), header))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Model":
        """Reads a file written by `save`; any other file is a `UsageError`.

        The arrays are read only if their names and shapes are those the header implies.
        """
        path = Path(path)
        if not path.is_file():
            raise UsageError(f"there is no model file {path}")
        with tensors.open_tensors(path, FORMAT, SCHEMA, SEALED) as file:
            shell = _shell(file.header, file.shapes)
            tensors.check_shapes(shell._arrays(), file.shapes)
            model = dataclasses.replace(shell, **tensors.unflatten(shell._arrays(), file.read()))
            for stats in (model.obs_stats, model.return_stats):
                if (stats.var < 0).any():
                    raise ValueError("a variance is below 0")
            return model

    def _arrays(self) -> dict[str, Any]:
        names = ("policy", "critic", "obs_stats", "return_stats")
        return {name: getattr(self, name) for name in names}


def _shell(header: dict[str, str], stored: dict[str, jax.ShapeDtypeStruct]) -> Model:
    """The model described by a header, with shapes in place of arrays."""
    config = Config.from_dict(parse_json(header["config"]))
    observation, action = (
        space_from_json(parse_json(header[f"{name}_space"])) for name in ("observation", "action")
    )
    config = config.replace(**network_for(config, observation))
    # Networks that were trained in double precision are float64, the others float32.
    wide = any(x.dtype == np.float64 for name, x in stored.items() if name.startswith("policy."))
    with jax.enable_x64(wide):
        make = functools.partial(fresh_networks, config, observation, action)
        networks = jax.eval_shape(make, jax.random.key(0))
    shapes = (Encoder.of(config, observation).stats_shape, ())
    obs_stats, return_stats = (stats_shell(shape) for shape in shapes)
    policy, critic = networks
    return Model(
        config=config,
        observation_space=observation,
        action_space=action,
        policy=policy,
        critic=critic,
        obs_stats=obs_stats,
        return_stats=return_stats,
    )


def stats_shell(shape: tuple[int, ...]) -> Any:
    """Shapes of the arrays of running statistics."""

    def like(shape: tuple[int, ...]) -> Any:
        return jax.ShapeDtypeStruct(shape, np.float64)

    return RunningStats(mean=like(shape), var=like(shape), seen=like(()))


def fresh_networks(
    config: Config, observation_space: gym.Space, action_space: gym.Space, key: PRNGKeyArray
) -> tuple[Policy, Critic]:
    """Fresh networks from a key. `auto` fields of the network must be settled."""
    encoder, family = Encoder.of(config, observation_space), family_for(action_space)
    policy_key, critic_key = jax.random.split(key)
    policy = init_policy(policy_key, encoder, family, config)
    return policy, init_critic(critic_key, encoder, config)


def check_fit(model: Model, observation: gym.Space, action: gym.Space, what: str) -> None:
    """Refuses an environment whose spaces differ from the model's, and names the differences."""
    pairs = (
        ("observation", model.observation_space, observation),
        ("action", model.action_space, action),
    )
    wrong = [
        f"the {name} space of the model is {ours}, that of the environment {theirs}"
        for name, ours, theirs in pairs
        if not _alike(ours, theirs)
    ]
    if wrong:
        raise UsageError(f"the model does not fit {what}: {'; '.join(wrong)}")


def _alike(ours: gym.Space, theirs: gym.Space) -> bool:
    """Equality up to the bounds and precision of Boxes, which a network does not depend on."""
    match ours, theirs:
        case (gym.spaces.Box(), gym.spaces.Box()):
            kinds = [np.issubdtype(space.dtype, np.floating) for space in (ours, theirs)]
            return ours.shape == theirs.shape and kinds[0] == kinds[1]
        case (gym.spaces.Dict(), gym.spaces.Dict()):
            same = list(ours) == list(theirs)
            return same and all(_alike(ours[key], theirs[key]) for key in ours)
        case (gym.spaces.Tuple(), gym.spaces.Tuple()):
            return len(ours) == len(theirs) and all(map(_alike, ours, theirs))
    return ours == theirs
