"""Encoding of observations for the network."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from capo import Config, UsageError
from capo.core.encoding import Encoder, lead_of, mismatch
from capo.core.families import Categorical
from capo.core.nesting import leaves, nest, stack
from capo.core.networks import init_policy, to_host
from capo.envs.adapters import EncodedEnv
from capo.methods import settle
from support.policies import blank_model
from support.probes import Probe, small, vector

FLAT = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    spaces.Box(0, 255, (2, 2, 3), np.uint8),
    spaces.Discrete(4, start=2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
    spaces.Dict({"z": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(3)}),
    spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Dict({"b": spaces.MultiBinary(2)})]),
]


def samples(space, n=5):
    space.seed(0)
    return [space.sample() for _ in range(n)]


@pytest.mark.parametrize("space", FLAT, ids=str)
def test_flat_observations_equal_gymnasiums_flatten(space):
    encoder = Encoder(space, image=False)
    drawn = samples(space)
    for obs in drawn:
        np.testing.assert_array_equal(encoder(obs), spaces.flatten(space, obs))
    assert encoder.shape == spaces.flatten_space(space).shape
    many = encoder(stack(space, drawn), (5,))
    np.testing.assert_array_equal(many, [encoder(obs) for obs in drawn])
    assert many.dtype == encoder.dtype


@pytest.mark.parametrize("space", FLAT, ids=str)
def test_leaves_and_nest_are_inverse(space):
    drawn = stack(space, samples(space))
    flat = list(leaves(space, drawn))
    again = nest(space, iter(flat))
    assert all(a is b for a, b in zip(flat, leaves(space, again), strict=True))
    assert mismatch(space, again, (5,)) is None
    shapes = [(5, *part.shape) for part in leaves(space, space)]
    assert [part.shape for part in flat] == shapes
    twice = stack(space, [drawn, drawn], np.concatenate)
    np.testing.assert_array_equal(
        Encoder(space, image=False)(twice, (10,)),
        [Encoder(space, image=False)(obs) for obs in samples(space)] * 2,
    )


@pytest.mark.parametrize("space", FLAT, ids=str)
def test_batch_dimensions_are_found_from_the_shape(space):
    drawn = samples(space)
    assert lead_of(space, drawn[0]) == ()
    assert lead_of(space, stack(space, drawn)) == (5,)


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (
            FLAT[0],
            np.zeros(4),
            r"an observation has shape \(3,\), not \(4,\); several observations",
        ),
        (FLAT[0], np.zeros((2, 2, 3)), r"shape \(3,\), not \(2, 2, 3\)"),
        (FLAT[6], np.zeros(5), r"has the parts \['a', 'z'\], this is ndarray"),
        (FLAT[6], {"a": 1}, r"has the parts \['a', 'z'\], not \['a'\]"),
        (FLAT[6], {"a": 1, "z": np.zeros(3)}, r"in part 'z', .* shape \(2,\), not \(3,\)"),
    ],
)
def test_a_wrong_shape_is_an_error_that_states_the_right_one(space, obs, message):
    with pytest.raises(UsageError, match=message):
        lead_of(space, obs)


def test_batches_in_a_dict_must_have_equal_sizes():
    space = FLAT[6]
    assert mismatch(space, {"a": np.zeros(3, int), "z": np.zeros((2, 2))}, (3,)) is not None


def test_channels_are_moved_to_the_last_axis():
    image = np.arange(4 * 6 * 5, dtype=np.uint8).reshape(6, 5, 4)
    last = Encoder(spaces.Box(0, 255, (6, 5, 4), np.uint8), image=True)
    first = Encoder(spaces.Box(0, 255, (4, 6, 5), np.uint8), image=True)
    gray = Encoder(spaces.Box(0, 1, (6, 5), np.float32), image=True)
    assert last.shape == first.shape == (6, 5, 4)
    np.testing.assert_array_equal(last(image), image)
    np.testing.assert_array_equal(first(np.moveaxis(image, -1, 0)), image)
    np.testing.assert_array_equal(first(np.moveaxis(image, -1, 0)[None], (1,)), image[None])
    assert gray.shape == (6, 5, 1)
    assert (last.scale, gray.scale) == (1 / 255, 1.0)


def test_the_automatic_network_depends_on_the_space():
    config = Config("x")
    small_image, large_image = ((10, 10, 4), bool), ((4, 84, 84), np.uint8)
    found = [settle(config, spaces.Box(0, 1, *args)) for args in (small_image, large_image)]
    assert [(c.network, c.hidden, c.activation) for c in found] == [
        ("cnn", (128,), "relu"),
        ("cnn", (512,), "relu"),
    ]
    flat = settle(config, FLAT[0])
    assert (flat.network, flat.hidden, flat.activation) == ("mlp", (64, 64), "tanh")
    assert settle(config.replace(network="mlp"), FLAT[2]).network == "mlp"
    kept = settle(config.replace(hidden=(7,), activation="relu"), FLAT[0])
    assert (kept.hidden, kept.activation) == ((7,), "relu")
    assert settle(flat, FLAT[0]) == flat


@pytest.mark.parametrize(
    ("space", "image", "message"),
    [
        (spaces.Text(3), False, "Text.* is not supported; it must be a Box, Discrete"),
        (spaces.Dict({}), False, "is not supported"),
        (spaces.Dict({"t": spaces.Text(3)}), False, "is not supported"),
        (
            spaces.Box(-1, 1, (3,)),
            True,
            r"a CNN cannot read .*; it must be a Box of shape \(H, W\)",
        ),
        (spaces.Discrete(3), True, "a CNN cannot read"),
    ],
)
def test_an_unsupported_observation_space_is_named(space, image, message):
    with pytest.raises(UsageError, match=message):
        Encoder(space, image)


def test_one_hot_codes_are_not_normalised():
    encoder = Encoder(FLAT[6], image=False)
    rows = np.array([[1, 0, 0, 5, 1], [0, 1, 0, 7, 3]], float)
    stats = encoder.update_stats(encoder.blank_stats(), rows)
    np.testing.assert_array_equal(stats.mean, [0, 0, 0, 6, 2])
    np.testing.assert_array_equal(stats.var, [1, 1, 1, 1, 1])


class Counting(Probe):
    """Observes the time step; episodes of 3 steps."""

    length = 3
    observation_space = spaces.Box(0, 9, (1,), np.float32)

    def see(self):
        return np.full(1, self.t, np.float32)


def test_stacked_frames_shift_and_restart_with_an_episode():
    env = EncodedEnv(vector(Counting, 2), Encoder(Counting.observation_space, False, frames=3))
    assert env.reset().tolist() == [[0, 0, 0]] * 2
    steps = [env.step(np.zeros(2, int)) for _ in range(4)]
    assert [s.next_obs[0].tolist() for s in steps] == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [0, 0, 1]]
    assert [s.obs[0].tolist() for s in steps] == [[0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]]


def test_predict_keeps_the_frames_in_its_state():
    """The state of `predict` is the stack of frames of the training loop."""
    config = small(frame_stack=3)
    model = blank_model(config, Counting.observation_space, gym.spaces.Box(-9, 9, (1,)))
    frames = [np.array([[t], [10 + t]], np.float32) for t in range(3)]
    _, state = model.predict(frames[0])
    _, state = model.predict(frames[1], state, np.array([False, False]))
    action, state = model.predict(frames[2], state, np.array([False, True]), deterministic=True)
    assert state.tolist() == [[0, 1, 2], [12, 12, 12]]
    np.testing.assert_array_equal(action, model.act(state))
    one, state = model.predict(frames[2][0])
    assert one.shape == (1,)
    assert state.tolist() == [2, 2, 2]


PARTS = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (3, 8, 6), np.uint8),
        "joints": spaces.Box(-1, 1, (2,), np.float32),
        "map": spaces.Box(0, 1, (5, 5, 2), np.bool_),
        "mode": spaces.Discrete(3),
    }
)


def test_images_among_other_parts_are_seen_as_images():
    """Their pixels are in [0, 1], with channels last, and the statistics leave them alone."""
    config = settle(small(network="auto"), PARTS)
    assert config.network == "multi"
    encoder = Encoder.of(config, PARTS)
    assert [shape for _, _, shape in encoder.parts] == [(8, 6, 3), None, (5, 5, 2), None]
    obs = PARTS.sample()
    vector = encoder(obs)
    assert vector.shape == encoder.shape == (3 * 8 * 6 + 2 + 50 + 3,)
    start, end, shape = encoder.parts[0]
    camera = np.moveaxis(obs["camera"], 0, -1) / np.float32(255)
    np.testing.assert_allclose(vector[start:end].reshape(shape), camera, rtol=1e-6)
    assert encoder.codes.sum() == 3 * 8 * 6 + 50 + 3, "all but the joints"
    plain = Encoder.of(settle(small(network="mlp"), PARTS), PARTS)
    assert plain(obs)[start:end].max() > 1, "as one vector they are numbers like any other"


def test_each_image_has_its_own_convolutions():
    config = settle(small(network="multi", hidden=(8,)), PARTS)
    encoder = Encoder.of(config, PARTS)
    policy = init_policy(jax.random.key(0), encoder, Categorical(4), config)
    camera, chart = policy.net.images
    assert (camera.kernels[0].shape, chart.kernels[0].shape) == ((27, 16), (18, 16))
    assert policy.net.head.weights[0].shape == (128 + 2 + 128 + 3, 8)
    x = np.stack([encoder(PARTS.sample()) for _ in range(3)])
    found = to_host(policy)(x)
    np.testing.assert_allclose(found, jax.jit(lambda p, x: p(x))(policy, x), rtol=1e-4, atol=1e-6)
    # A pixel of the camera moves the output only through the camera's convolutions.
    start = encoder.parts[0][0]
    moved = x.copy()
    moved[:, start] = 1 - moved[:, start]
    assert not np.allclose(to_host(policy)(moved), found)
    nothing = jnp.zeros_like(camera.kernels[0])
    blind = eqx.tree_at(lambda p: p.net.images[0].kernels[0], policy, nothing)
    np.testing.assert_array_equal(to_host(blind)(moved), to_host(blind)(x))


def test_frames_of_parts_are_refused():
    with pytest.raises(UsageError, match="frame_stack is not for a Dict or Tuple with images"):
        Encoder.of(settle(small(network="multi", frame_stack=2), PARTS), PARTS)
