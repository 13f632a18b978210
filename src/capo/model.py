"""A policy one can hold: networks, normaliser statistics, spaces and configuration in one file.

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
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from capo.config import Config, UsageError
from capo.envs import to_env
from capo.families import family_for
from capo.files import write_atomic
from capo.networks import Critic, Policy, init_critic, init_policy, to_host
from capo.normalize import RunningStats
from capo.observations import Encoder, lead_of, prepare, settle

FORMAT = "capo-model"
SCHEMA = 1


@dataclass(frozen=True)
class Model:
    """Everything that is needed to act, and to go on judging states."""

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
            noise = family.noise(rng or np.random.default_rng(), dist.shape[:-1])
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

    @functools.cached_property
    def encoder(self) -> Encoder:
        """What turns the environment's observations into what the network reads."""
        return Encoder.of(self.config, self.observation_space)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file, whole or not at all."""
        header = {
            "format": FORMAT,
            "schema": str(SCHEMA),
            "config": json.dumps(self.config.to_dict()),
            "observation_space": json.dumps(space_to_json(self.observation_space)),
            "action_space": json.dumps(space_to_json(self.action_space)),
        }
        arrays = {name: np.asarray(x, order="C") for name, x in _named(self._arrays()).items()}
        write_atomic(Path(path), save(arrays, metadata=header))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Model":
        """Reads what `save` wrote; anything else is refused with one line."""
        path = Path(path)
        if not path.is_file():
            raise UsageError(f"there is no model file {path}")
        try:
            with safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise UsageError(f"{path} is not a readable safetensors file: {error}") from error
        if header.get("format") != FORMAT:
            raise UsageError(f"{path} is not a capo model: it has no {FORMAT} header")
        if header.get("schema") != str(SCHEMA):
            raise UsageError(
                f"{path} has schema {header.get('schema')}, this version reads {SCHEMA}"
            )
        try:
            return _assemble(header, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path} is damaged or was edited: {error}") from error

    def _arrays(self) -> dict[str, Any]:
        names = ("policy", "critic", "obs_stats", "return_stats")
        return {name: getattr(self, name) for name in names}


def _assemble(header: dict[str, str], arrays: dict[str, np.ndarray]) -> Model:
    config = Config.from_dict(json.loads(header["config"]))
    spaces = [space_from_json(json.loads(header[f"{k}_space"])) for k in ("observation", "action")]
    blank = blank_model(config, *spaces)
    wanted = _named(blank._arrays())
    if wrong := set(wanted) ^ set(arrays):
        raise ValueError(f"arrays missing or unknown: {', '.join(sorted(wrong))}")
    for name, like in wanted.items():
        if np.shape(like) != arrays[name].shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, expected {np.shape(like)}")
    leaves, structure = jax.tree.flatten(blank._arrays())
    assert len(leaves) == len(wanted)
    return dataclasses.replace(blank, **structure.unflatten([arrays[name] for name in wanted]))


def blank_model(config: Config, observation_space: gym.Space, action_space: gym.Space) -> Model:
    """A model of the right shapes that has learned nothing."""
    config = settle(config, observation_space)
    networks = init_networks(config, observation_space, action_space)
    stats = (Encoder.of(config, observation_space).blank_stats(), RunningStats.init())
    return Model(config, observation_space, action_space, *networks, *stats)


def init_networks(
    config: Config, observation_space: gym.Space, action_space: gym.Space
) -> tuple[Policy, Critic]:
    """Fresh networks for these spaces, from the configuration's seed, on the host."""
    config = settle(config, observation_space)
    encoder, family = Encoder.of(config, observation_space), family_for(action_space)
    policy_key, critic_key = jax.random.split(jax.random.key(config.seed))
    policy = init_policy(policy_key, encoder, family, config)
    critic = init_critic(critic_key, encoder, config)
    return to_host((policy, critic))


def check_fit(model: Model, observation: gym.Space, action: gym.Space, what: str) -> None:
    """Refuses an environment whose spaces are not the model's, with every difference named."""
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
    """Equal, but for the bounds and the precision of Boxes, which a network does not depend on."""
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


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by dotted path, in the order of `jax.tree.flatten`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """A space as plain JSON; unbounded ends are null."""
    match space:
        case gym.spaces.Box():
            bounds = {
                side: [float(x) if np.isfinite(x) else None for x in getattr(space, side).flat]
                for side in ("low", "high")
            }
            return {"type": "Box", "shape": space.shape, "dtype": str(space.dtype), **bounds}
        case gym.spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        case gym.spaces.MultiDiscrete():
            lists = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", **lists}
        case gym.spaces.MultiBinary():
            return {"type": "MultiBinary", "n": int(np.prod(space.n))}
        case gym.spaces.Dict():
            return {"type": "Dict", "spaces": [[k, space_to_json(s)] for k, s in space.items()]}
        case gym.spaces.Tuple():
            return {"type": "Tuple", "spaces": [space_to_json(part) for part in space]}
    raise UsageError(f"the space {space} cannot be saved")


def space_from_json(saved: dict[str, Any]) -> gym.Space:
    """The inverse of `space_to_json`."""
    match saved["type"]:
        case "Box":
            low = [-np.inf if x is None else x for x in saved["low"]]
            high = [np.inf if x is None else x for x in saved["high"]]
            shape, dtype = tuple(saved["shape"]), np.dtype(saved["dtype"])
            low, high = (np.asarray(x, dtype).reshape(shape) for x in (low, high))
            return gym.spaces.Box(low, high, dtype=dtype.type)
        case "Discrete":
            return gym.spaces.Discrete(saved["n"], start=saved["start"])
        case "MultiDiscrete":
            return gym.spaces.MultiDiscrete(saved["nvec"], start=saved["start"])
        case "MultiBinary":
            return gym.spaces.MultiBinary(saved["n"])
        case "Dict":
            return gym.spaces.Dict([(k, space_from_json(part)) for k, part in saved["spaces"]])
        case "Tuple":
            return gym.spaces.Tuple([space_from_json(part) for part in saved["spaces"]])
    raise ValueError(f"unknown space {saved['type']!r}")
