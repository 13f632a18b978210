"""Consensus Aggregation for Policy Optimization: wider PPO updates from the same samples."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capo.algorithms import CAPO as CAPO
    from capo.algorithms import PPO as PPO
    from capo.algorithms import PPOSWA as PPOSWA
    from capo.algorithms import TRPO as TRPO
    from capo.algorithms import BestOfK as BestOfK
    from capo.algorithms import CAPOAvg as CAPOAvg
    from capo.algorithms import PPOKx as PPOKx
    from capo.callbacks import CheckpointCallback as CheckpointCallback
    from capo.callbacks import EvalCallback as EvalCallback
    from capo.callbacks import StopOnReturn as StopOnReturn
    from capo.config import Config as Config
    from capo.core.consensus import Consensus as Consensus
    from capo.core.consensus import Experts as Experts
    from capo.core.fisher import Decomposition as Decomposition
    from capo.core.fisher import Experience as Experience
    from capo.core.fisher import decompose as decompose
    from capo.core.own_network import register_network as register_network
    from capo.errors import EnvError as EnvError
    from capo.errors import NonFiniteError as NonFiniteError
    from capo.errors import UsageError as UsageError
    from capo.evaluation import Evaluation as Evaluation
    from capo.evaluation import evaluate as evaluate
    from capo.methods import METHODS as METHODS
    from capo.methods import Method as Method
    from capo.methods import Settled as Settled
    from capo.methods import settle as settle
    from capo.model import Model as Model
    from capo.state import Generation as Generation
    from capo.state import TrainState as TrainState
    from capo.state import init as init
    from capo.train import generations as generations
    from capo.train import learn as learn
    from capo.update import Update as Update
    from capo.update import improve as improve

    __version__: str

_HOMES = {
    "StopOnReturn": "callbacks",
    "EvalCallback": "callbacks",
    "CheckpointCallback": "callbacks",
    "BestOfK": "algorithms",
    "PPOSWA": "algorithms",
    "PPOKx": "algorithms",
    "CAPOAvg": "algorithms",
    "TRPO": "algorithms",
    "PPO": "algorithms",
    "CAPO": "algorithms",
    "Config": "config",
    "UsageError": "errors",
    "Consensus": "core.consensus",
    "Experts": "core.consensus",
    "EnvError": "errors",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "NonFiniteError": "errors",
    "Decomposition": "core.fisher",
    "Experience": "core.fisher",
    "decompose": "core.fisher",
    "register_network": "core.own_network",
    "METHODS": "methods",
    "Method": "methods",
    "Settled": "methods",
    "settle": "methods",
    "Model": "model",
    "Generation": "state",
    "TrainState": "state",
    "Update": "update",
    "improve": "update",
    "generations": "train",
    "init": "state",
    "learn": "train",
}
__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    """Loads a public name when it is first used: `import capo` itself does not start JAX."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("capo-rl")
    if name in _HOMES:
        return getattr(importlib.import_module(f"capo.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'capo' has no attribute {name!r}")
