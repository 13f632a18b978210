"""capo eval."""

import json
from typing import TYPE_CHECKING, Annotated

import tyro

from capo.commands.words import RunPath, TaskName, about, check_seed, load_model
from capo.config import check_least

if TYPE_CHECKING:
    from capo.evaluation import Evaluation


def evaluate_run(
    run: RunPath,
    episodes: int = 20,
    seed: int | None = None,
    env: TaskName = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Evaluate a trained policy: mean return, standard error, length.

    Example: capo eval runs/Hopper-v4__capo__1__* --episodes 100

    Args:
        run: A run folder or a model file.
        episodes: How many episodes to play.
        seed: Seed of the episodes; default: decided by the run's own seed.
        env: The task to play, if it is not the model's own; it must have the same spaces.
        as_json: Print JSON, with every episode, instead of text.
    """
    check_least("--episodes", episodes)
    check_seed(seed)
    from capo.evaluation import evaluate

    model = load_model(run, env)
    with about(run):
        result = evaluate(model, episodes, seed)
    if as_json:
        named = {"env_id": model.config.env_id, "algo": model.config.algo, **result.to_dict()}
        print(json.dumps(named, indent=2))
    else:
        print(f"{model.config.env_id}, {model.config.algo}: {in_words(result)}")
    return 0


def in_words(result: "Evaluation") -> str:
    """An evaluation as a person reads it."""
    error = "" if len(result.returns) == 1 else f" ± {result.standard_error:.1f} (SE)"
    length = sum(result.lengths) / len(result.lengths)
    plural = "" if len(result.returns) == 1 else "s"
    return (
        f"return {result.mean:.1f}{error} over {len(result.returns)} episode{plural}, "
        f"length {length:.0f}"
    )
