"""A policy one can hold: networks, normaliser statistics, spaces and configuration in one file.

The file is safetensors: arrays by name and a JSON header. Reading it runs no code.
"""

import dataclasses
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
from capo.envs import check_spaces, to_env
from capo.families import family_for
from capo.networks import Critic, Policy, init_critic, init_policy, to_host
from capo.normalize import RunningStats, as_float32

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
        """Actions for one observation or a batch of them, within the action space.

        The most likely action, or one drawn from the policy with `rng`.
        """
        obs, shape = np.asarray(obs), self.observation_space.shape
        if obs.shape[-1:] != shape or obs.ndim > 2:
            raise UsageError(f"an observation has shape {shape} or (n, *{shape}), not {obs.shape}")
        seen = self.obs_stats.normalize(obs) if self.config.normalize_obs else as_float32(obs)
        dist = self.policy(seen)
        family = self.policy.family
        if deterministic:
            action = family.mode(dist)
        else:
            noise = family.noise(rng or np.random.default_rng(), dist.shape[:-1])
            action = family.sample(dist, noise)
        return to_env(self.action_space, action)

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
    networks = init_networks(config, observation_space, action_space)
    stats = (RunningStats.init(observation_space.shape or ()), RunningStats.init())
    return Model(config, observation_space, action_space, *networks, *stats)


def init_networks(
    config: Config, observation_space: gym.Space, action_space: gym.Space
) -> tuple[Policy, Critic]:
    """Fresh networks for these spaces, from the configuration's seed, on the host."""
    check_spaces(observation_space)
    assert observation_space.shape is not None
    size, family = observation_space.shape[0], family_for(action_space)
    policy_key, critic_key = jax.random.split(jax.random.key(config.seed))
    policy = init_policy(policy_key, size, family, config.hidden, config.state_dependent_std)
    critic = init_critic(critic_key, size, config.hidden)
    return to_host((policy, critic))


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by dotted path, in the order of `jax.tree.flatten`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def write_atomic(path: Path, content: bytes) -> None:
    """Writes to a temporary name beside `path`, then renames."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, whole or not at all."""
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


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
    raise ValueError(f"unknown space {saved['type']!r}")
