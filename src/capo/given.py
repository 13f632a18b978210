"""What a person gives to a class, as fields of a configuration."""

import dataclasses
import inspect
from typing import Any, get_type_hints

from capo import zoo
from capo.aliases import BATCH_SIZE, without_batch_size
from capo.config import Config, arguments_to_text
from capo.core.own_network import register_network
from capo.envs.adapters import EnvSource
from capo.envs.wrapping import Dressing, texts_of
from capo.errors import UsageError
from capo.keywords import Keywords
from capo.presets import preset_values

POLICIES = {"MlpPolicy": "mlp", "CnnPolicy": "cnn", "MultiInputPolicy": "auto"}
"""Networks by their names in Stable-Baselines3."""


def keyword_signature() -> inspect.Signature:
    """The constructor's, with all keywords and their defaults, for `help` and notebooks."""
    parameter, only = inspect.Parameter, inspect.Parameter.KEYWORD_ONLY
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    defaults |= {"preset": "auto"}
    names = ["seed", *(name for name in get_type_hints(Keywords) if name in defaults)]
    keywords = [parameter(name, only, default=defaults[name]) for name in names]
    first = [parameter(name, parameter.POSITIONAL_OR_KEYWORD) for name in ("policy", "env")]
    return inspect.Signature([*first, *keywords])


def network_name(policy: Any) -> str:
    """The configuration's name of a policy: of a known one, or of networks of one's own."""
    if isinstance(policy, str):
        if policy not in POLICIES and policy != "auto":
            raise UsageError(
                f"unknown policy {policy!r}; there are {', '.join(POLICIES)} and auto, or give a "
                "network of your own"
            )
        return POLICIES.get(policy, policy)
    return register_network(*policy) if isinstance(policy, tuple) else register_network(policy)


def dressing_given(fields: dict[str, Any]) -> Dressing:
    """Arguments and wrappers that a person gave for an id, whose wrappers are then imported."""
    arguments = fields.get("env_kwargs") or ""
    text = arguments_to_text(arguments) if isinstance(arguments, dict) else arguments
    return Dressing(text, texts_of(fields.get("wrappers") or ()))


def with_presets(fields: dict[str, Any], source: EnvSource, algo: str) -> dict[str, Any]:
    """The fields, those of the zoo, and sizes of a batch that fit the environments."""
    fields = {"preset": "auto", **fields}
    row = zoo.row(source.name, algo, fields["preset"])
    row.pop("total_steps", None)
    sizes = {"num_envs": Config.num_envs, **preset_values(str(fields["preset"]), algo), **row}
    if source.fixed_num_envs is not None:
        row = {name: value for name, value in row.items() if name not in ("num_envs", "num_steps")}
    if BATCH_SIZE in fields:
        row.pop("minibatches", None)
    sized = source.sized({**row, **fields}, sizes["num_envs"] * sizes["num_steps"])
    batch = {**sizes, **sized}
    return without_batch_size(sized, batch["num_envs"] * batch["num_steps"])
