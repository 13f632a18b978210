"""ONNX graph of a deterministic policy: observation in, action and parameters out, in float32."""

import json
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from capo import __version__
from capo.core.families import LOG_STD_MAX, LOG_STD_MIN, Bernoulli, Categorical, DiagGaussian
from capo.core.nesting import parts_of
from capo.core.networks import CNN, MLP, MultiNet
from capo.core.normalize import CLIP, EPSILON, RunningStats
from capo.core.own_network import OwnNetwork
from capo.errors import UsageError
from capo.model import Model
from capo.storage.spaces import space_to_json

OPSET, IR_VERSION = 17, 8
"""Versions of 2022: old enough for every runtime, new enough for every operation used here."""
BATCH = "batch"
LARGEST = np.finfo(np.float32).max


class Graph:
    """Builder of a graph; `add` appends an operation and returns the name of its output."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def input(self, name: str, dtype: Any, shape: Iterable[int]) -> str:
        """Adds an input with a leading batch axis; floating types become float32."""
        floating = np.issubdtype(dtype, np.floating)
        kind = TensorProto.FLOAT if floating else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, [BATCH, *shape]))
        return name

    def add(self, operation: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """Adds an operation; inputs that are not names become constants."""
        name = name or f"{operation.lower()}_{len(self.nodes)}"
        names = [x if isinstance(x, str) else self._constant(f"{name}_{i}", x)
                 for i, x in enumerate(inputs)]  # fmt: skip
        self.nodes.append(helper.make_node(operation, names, [name], **attributes))
        return name

    def _constant(self, name: str, value: Any) -> str:
        value = np.asarray(value)
        if np.issubdtype(value.dtype, np.floating):
            value = np.clip(value, -LARGEST, LARGEST).astype(np.float32)
        self.constants.append(numpy_helper.from_array(value, name))
        return name


def build(model: Model) -> ModelProto:
    """The graph: input `observation`, or one per part of it; outputs `action` and `parameters`."""
    graph, family = Graph(), model.policy.family
    x = _add_inputs(graph, model)
    if model.config.network != "cnn" and model.config.normalize_obs:
        x = _normalize(graph, x, model.obs_stats)
    parameters = _parameters(graph, x, model)
    kind, shape = _add_action(graph, parameters, model)
    outputs = [
        helper.make_tensor_value_info("action", kind, [BATCH, *shape]),
        helper.make_tensor_value_info("parameters", TensorProto.FLOAT, [BATCH, family.size]),
    ]
    body = helper.make_graph(graph.nodes, "policy", graph.inputs, outputs, graph.constants)
    proto = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="capo",
        producer_version=__version__,
    )
    helper.set_model_props(proto, {"capo_version": __version__, **_metadata(model)})
    return proto


def _metadata(model: Model) -> dict[str, str]:
    config = model.config
    return {
        "env_id": config.env_id,
        "algo": config.algo,
        "seed": str(config.seed),
        "frame_stack": str(config.frame_stack),
        "observation_space": json.dumps(space_to_json(model.observation_space)),
        "action_space": json.dumps(space_to_json(model.action_space)),
    }


def _add_inputs(graph: Graph, model: Model) -> str:
    """The inputs, and the network's input made of them: float32, images with channels first."""
    encoder = model.encoder
    if encoder.frames > 1:
        given = graph.input("observation", encoder.dtype, encoder.shape)
        floats = graph.add("Cast", given, to=TensorProto.FLOAT)
        return graph.add("Transpose", floats, perm=[0, 3, 1, 2]) if encoder.image else floats
    if not encoder.image:
        return _flat(graph, model.observation_space, "observation")
    shape = tuple(model.observation_space.shape or ())
    given = graph.input("observation", encoder.dtype, shape)
    floats = graph.add("Cast", given, to=TensorProto.FLOAT)
    if len(shape) == 2:
        return graph.add("Unsqueeze", floats, [1])
    last = encoder.frame_shape == shape
    return graph.add("Transpose", floats, perm=[0, 3, 1, 2]) if last else floats


def _flat(graph: Graph, space: gym.Space, name: str) -> str:
    """One input per part of the space, concatenated to one vector."""
    match space:
        case gym.spaces.Dict() | gym.spaces.Tuple():
            parts = [_flat(graph, part, f"{name}.{key}") for key, part in parts_of(space)]
            return graph.add("Concat", *parts, axis=-1)
        case gym.spaces.Discrete():
            digit = graph.add("Sub", graph.input(name, np.int64, ()), np.int64(space.start))
            return _one_hot(graph, digit, int(space.n))
        case gym.spaces.MultiDiscrete():
            digits = graph.add("Sub", graph.input(name, np.int64, space.shape), space.start)
            row = graph.add("Reshape", digits, [0, -1])
            columns = enumerate(space.nvec.ravel().tolist())
            codes = [_one_hot(graph, graph.add("Gather", row, i, axis=1), n) for i, n in columns]
            return graph.add("Concat", *codes, axis=-1)
    given = graph.input(name, space.dtype, space.shape or ())
    floats = graph.add("Cast", given, to=TensorProto.FLOAT)
    return graph.add("Reshape", floats, [0, -1])


def _one_hot(graph: Graph, digit: str, size: int) -> str:
    return graph.add("OneHot", digit, size, np.array([0.0, 1.0]), axis=-1)


def _normalize(graph: Graph, x: str, stats: RunningStats) -> str:
    """(x − mean) / std, clipped, with the mean as the sum of two float32 numbers.

    One float32 mean would be off by a large share of the deviation where x hardly varies.
    """
    coarse = stats.mean.astype(np.float32)
    centred = graph.add("Sub", graph.add("Sub", x, coarse), stats.mean - coarse)
    z = graph.add("Div", centred, np.sqrt(stats.var + EPSILON))
    return graph.add("Clip", z, np.float32(-CLIP), np.float32(CLIP))


def _parameters(graph: Graph, x: str, model: Model) -> str:
    """Distribution parameters: the network's output, within the family's domain."""
    policy = model.policy
    net = policy.net
    if isinstance(net, OwnNetwork | MultiNet):
        raise UsageError("ONNX export is for an MLP or a CNN, not for images among other parts "
                         "or a network of one's own")  # fmt: skip
    if isinstance(net, CNN):
        x, net = _convolve(graph, x, net), net.head
    if not isinstance(policy.family, DiagGaussian):
        return _layers(graph, x, net, None, name="parameters")
    dim = policy.family.dim
    low, high = (np.r_[np.full(dim, sign * LARGEST), np.full(dim, end)]
                 for sign, end in ((-1, LOG_STD_MIN), (1, LOG_STD_MAX)))  # fmt: skip
    raw = _layers(graph, x, net, policy.log_std)
    return graph.add("Min", graph.add("Max", raw, low), high, name="parameters")


def _layers(graph: Graph, x: str, net: MLP, log_std: Any, name: str = "") -> str:
    """An MLP; a state-independent log std becomes a bias with zero weights."""
    *hidden, (weight, bias) = zip(net.weights, net.biases, strict=True)
    for inner, offset in hidden:
        x = graph.add({"tanh": "Tanh", "relu": "Relu"}[net.activation],
                      graph.add("Gemm", x, inner, offset))  # fmt: skip
    if log_std is not None:
        weight = np.concatenate([weight, np.zeros((len(weight), len(log_std)))], axis=1)
        bias = np.concatenate([bias, log_std])
    return graph.add("Gemm", x, weight, bias, name=name)


def _convolve(graph: Graph, x: str, net: CNN) -> str:
    """The convolutions, with patch matrices as kernels of shape (out, in, row, column)."""
    x = graph.add("Mul", x, np.float32(net.scale))
    for kernel, bias, (size, stride) in zip(net.kernels, net.biases, net.strides, strict=True):
        square = kernel.reshape(size, size, -1, kernel.shape[1]).transpose(3, 2, 0, 1)
        x = graph.add("Relu", graph.add("Conv", x, square, bias, strides=[stride, stride]))
    return graph.add("Reshape", graph.add("Transpose", x, perm=[0, 2, 3, 1]), [0, -1])


def _add_action(graph: Graph, parameters: str, model: Model) -> tuple[int, list[int]]:
    """Adds the output `action`; returns its type and shape."""
    family, space = model.policy.family, model.action_space
    if isinstance(family, DiagGaussian):
        assert isinstance(space, gym.spaces.Box)
        mean = graph.add("Slice", parameters, [0], [family.dim], [1])
        graph.add("Min", graph.add("Max", mean, space.low), space.high, name="action")
        return TensorProto.FLOAT, [family.dim]
    if isinstance(family, Bernoulli):
        on = graph.add("Greater", parameters, np.float32(0))
        graph.add("Cast", on, name="action", to=TensorProto.INT8)
        return TensorProto.INT8, [family.n]
    if isinstance(family, Categorical):
        best = graph.add("ArgMax", parameters, axis=1, keepdims=0)
        graph.add("Add", best, np.int64(getattr(space, "start", 0)), name="action")
        return TensorProto.INT64, []
    assert isinstance(space, gym.spaces.MultiDiscrete)
    ends = np.cumsum(space.nvec).tolist()
    parts = [graph.add("Slice", parameters, [end - n], [end], [1])
             for n, end in zip(space.nvec.tolist(), ends, strict=True)]  # fmt: skip
    best = [graph.add("ArgMax", part, axis=1, keepdims=1) for part in parts]
    graph.add("Add", graph.add("Concat", *best, axis=1), space.start, name="action")
    return TensorProto.INT64, [len(ends)]
