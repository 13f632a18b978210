"""Encoding of observations for the network: a flat vector, or an image with channels last.

Flat: a Box is flattened row by row; a Discrete is a one-hot code, a MultiDiscrete one after the
other; a Dict or Tuple is its parts one after the other, in the order of the space (Gymnasium sorts
the keys of a plain dict), with images among them as pixels in [0, 1]. Images: channels go last,
whichever way they came. With `frames` above 1 the last `frames` observations are concatenated on
the last axis, the newest at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from capo.core.nesting import parts_of
from capo.core.normalize import RunningStats, as_float32
from capo.core.settings import NetworkSettings
from capo.errors import UsageError

HIDDEN = {"mlp": (64, 64), "cnn": (128,), "multi": (64, 64)}
ACTIVATION = {"mlp": "tanh", "cnn": "relu", "multi": "tanh"}
LARGEST_SMALL_IMAGE = 35


def network_for(config: NetworkSettings, space: gym.Space) -> dict[str, Any]:
    """The fields of the network, with what `auto` means for an observation space."""
    kind = _kind(config, space)
    network = kind if config.network == "auto" else config.network
    hidden = config.hidden or ((512,) if _large(kind, space) else HIDDEN[kind])
    activation = ACTIVATION[kind] if config.activation == "auto" else config.activation
    return {"network": network, "hidden": hidden, "activation": activation}


def _kind(config: NetworkSettings, space: gym.Space) -> str:
    """What the network reads: a vector (mlp), an image (cnn), or both in parts (multi)."""
    if config.network in HIDDEN:
        return config.network
    if is_image(space):
        return "cnn"
    nested = isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple))
    return "multi" if nested and any(map(is_image, leaf_spaces(space))) else "mlp"


def leaf_spaces(space: gym.Space) -> list[gym.Space]:
    """The parts of a Dict or Tuple that are neither, in the order of the encoding."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return [leaf for _, part in parts_of(space) for leaf in leaf_spaces(part)]
    return [space]


def is_image(space: gym.Space) -> bool:
    """Whether `auto` reads the space as an image."""
    box = isinstance(space, gym.spaces.Box) and len(space.shape) == 3
    return box and space.dtype in (np.uint8, np.bool_)


def _large(network: str, space: gym.Space) -> bool:
    return network == "cnn" and min(Encoder(space, True).shape[:2]) > LARGEST_SMALL_IMAGE


@dataclass(frozen=True)
class Encoder:
    """Maps observations of `space` to inputs of the network."""

    space: gym.Space
    image: bool
    frames: int = 1
    multi: bool = False
    """A vector in which images are pixels in [0, 1], for a network that takes it apart again."""

    def __post_init__(self) -> None:
        if self.multi and self.frames > 1:
            raise UsageError(
                "frame_stack is not for a Dict or Tuple with images; stack the frames in a wrapper"
            )
        if self.image:
            if not isinstance(self.space, gym.spaces.Box) or len(self.space.shape) not in (2, 3):
                raise UsageError(
                    f"a CNN cannot read the observation space {self.space}; "
                    "it must be a Box of shape (H, W), (H, W, C) or (C, H, W)"
                )
        elif not _is_supported(self.space):
            raise UsageError(
                f"the observation space {self.space} is not supported; it must be a Box, Discrete, "
                "MultiDiscrete or MultiBinary, or a Dict or Tuple of these"
            )

    @staticmethod
    def of(config: NetworkSettings, space: gym.Space) -> "Encoder":
        """The encoder that a configuration asks for."""
        kind = _kind(config, space)
        return Encoder(space, kind == "cnn", config.frame_stack, kind == "multi")

    @property
    def plain(self) -> bool:
        """Whether the encoding is the identity."""
        flat = isinstance(self.space, gym.spaces.Box) and len(self.space.shape) == 1
        return flat and self.frames == 1

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of one encoded observation."""
        if not self.image:
            return (_size(self.space),)
        shape = tuple(self.space.shape or ())
        if len(shape) == 2:
            return (*shape, 1)
        return (*shape[1:], *shape[:1]) if _first(shape) else shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the network reads: `frames` observations on the last axis."""
        *rest, last = self.frame_shape
        return (*rest, last * self.frames)

    @property
    def dtype(self) -> np.dtype:
        """Images and floating numbers keep theirs; the rest is float32."""
        return np.dtype(_dtype(self.space, self.image))

    @property
    def scale(self) -> float:
        """Factor that maps a pixel to [0, 1]: 1/255 if the space reaches 255, else 1."""
        return 1 / 255 if self.image and np.max(getattr(self.space, "high", 0)) == 255 else 1.0

    @property
    def codes(self) -> np.ndarray:
        """Mask of the one-hot and binary entries, which are not standardised."""
        return np.tile(np.concatenate(_codes(self.space, self.multi)), self.frames)

    @property
    def parts(self) -> list[tuple[int, int, tuple[int, ...] | None]]:
        """Start and end of each part in the vector, and the shape of an image; else None."""
        places, start = [], 0
        for leaf in leaf_spaces(self.space):
            end = start + _size(leaf)
            shape = Encoder(leaf, True).frame_shape if self.multi and is_image(leaf) else None
            places.append((start, end, shape))
            start = end
        return places

    def __call__(self, obs: Any, lead: tuple[int, ...] = ()) -> np.ndarray:
        """Encodes an observation, or n of them with `lead` = (n,), of one frame."""
        if not self.image:
            return _flatten(self.space, obs, lead, self.multi)
        obs, shape = np.asarray(obs), self.space.shape or ()
        if len(shape) == 2:
            return obs[..., None]
        return np.moveaxis(obs, -3, -1) if _first(shape) else obs

    def first(self, frame: np.ndarray) -> np.ndarray:
        """The stack at the start of an episode: `frames` copies of the first frame."""
        return np.concatenate([frame] * self.frames, axis=-1)

    def then(self, stack: np.ndarray, frame: np.ndarray) -> np.ndarray:
        """The stack after one more frame, without the oldest."""
        return np.concatenate([stack[..., frame.shape[-1] :], frame], axis=-1)

    @property
    def stats_shape(self) -> tuple[int, ...]:
        """The shape of the statistics; images need none."""
        return () if self.image else self.shape

    def blank_stats(self) -> RunningStats:
        """Statistics before the first observation."""
        return RunningStats.init(self.stats_shape)

    def update_stats(self, stats: RunningStats, rows: np.ndarray) -> RunningStats:
        """Statistics with more rows of encoded observations; codes and images have none."""
        if self.image:
            return stats
        stats, codes = stats.update(rows), self.codes
        if not codes.any():
            return stats
        return stats._replace(
            mean=np.where(codes, 0.0, stats.mean), var=np.where(codes, 1.0, stats.var)
        )


def prepare(config: NetworkSettings, stats: RunningStats, obs: np.ndarray) -> np.ndarray:
    """Input of the first layer: standardised if `normalize_obs` is on; images unchanged."""
    return preparing(config, stats)(obs)


def preparing(config: NetworkSettings, stats: RunningStats) -> Callable[[np.ndarray], np.ndarray]:
    """`prepare` as a function of the observations, for many batches."""
    if stats.mean.ndim == 0:  # images have no statistics
        return lambda obs: obs
    return stats.normalizer() if config.normalize_obs else as_float32


def lead_of(space: gym.Space, obs: Any) -> tuple[int, ...]:
    """() for one observation, (n,) for a batch of n; any other shape is an error."""
    for lead in ((), _front(space, obs)):
        if mismatch(space, obs, lead) is None:
            return lead
    wanted = mismatch(space, obs, ())
    raise UsageError(f"{wanted}; several observations at once have a first axis for them")


def mismatch(space: gym.Space, obs: Any, lead: tuple[int, ...] = ()) -> str | None:
    """Error message about the shape of an observation; None if it fits."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        kind = dict if isinstance(space, gym.spaces.Dict) else (tuple, list)
        keys = [key for key, _ in parts_of(space)]
        if not isinstance(obs, kind):
            return f"an observation has the parts {keys}, this is {type(obs).__name__}"
        if isinstance(obs, dict) and set(obs) != set(keys):
            return f"an observation has the parts {keys}, not {sorted(obs)}"
        parts = ((key, mismatch(part, obs[key], lead)) for key, part in parts_of(space))
        return next((f"in part {key!r}, {wrong}" for key, wrong in parts if wrong), None)
    shape = (*lead, *(space.shape or ()))
    if np.shape(obs) == shape:
        return None
    return f"an observation has shape {shape}, not {np.shape(obs)}"


def _front(space: gym.Space, obs: Any) -> tuple[int, ...]:
    """Length of the first axis of the first part."""
    while isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)) and parts_of(space):
        key, space = parts_of(space)[0]
        try:
            obs = obs[key]
        except (KeyError, IndexError, TypeError):
            return ()
    return np.shape(obs)[:1]


def _is_supported(space: gym.Space) -> bool:
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return bool(parts_of(space)) and all(_is_supported(part) for _, part in parts_of(space))
    flat = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
    return isinstance(space, flat)


def _size(space: gym.Space) -> int:
    return gym.spaces.flatdim(space)


def _flatten(space: gym.Space, obs: Any, lead: tuple[int, ...], multi: bool) -> np.ndarray:
    match space:
        case gym.spaces.Dict() | gym.spaces.Tuple():
            parts = [_flatten(part, obs[key], lead, multi) for key, part in parts_of(space)]
            return np.concatenate(parts, axis=-1, dtype=np.float32)
        case gym.spaces.Box() if multi and is_image(space):
            image = Encoder(space, True)
            return (image(obs).astype(np.float32) * np.float32(image.scale)).reshape(*lead, -1)
        case gym.spaces.Discrete():
            return _one_hot(np.asarray(obs, int) - int(space.start), int(space.n))
        case gym.spaces.MultiDiscrete():
            digits = (np.asarray(obs, int) - space.start).reshape(*lead, -1)
            sizes = enumerate(space.nvec.ravel().tolist())
            return np.concatenate([_one_hot(digits[..., i], n) for i, n in sizes], axis=-1)
        case gym.spaces.MultiBinary():
            return np.asarray(obs, np.float32).reshape(*lead, -1)
    return np.asarray(obs, _dtype(space, False)).reshape(*lead, -1)


def _one_hot(digit: Any, n: int) -> np.ndarray:
    return (np.asarray(digit)[..., None] == np.arange(n)).astype(np.float32)


def _dtype(space: gym.Space, image: bool) -> Any:
    keep = isinstance(space, gym.spaces.Box) and (image or np.issubdtype(space.dtype, np.floating))
    return space.dtype if keep else np.float32


def _codes(space: gym.Space, multi: bool) -> list[np.ndarray]:
    return [
        np.full(_size(leaf), not isinstance(leaf, gym.spaces.Box) or (multi and is_image(leaf)))
        for leaf in leaf_spaces(space)
    ]


def _first(shape: tuple[int, ...]) -> bool:
    """Whether the channels of a 3-D image come first: there are fewer of them than pixels."""
    return shape[0] < shape[-1]
