"""capo eval."""

import json
from typing import Annotated

import tyro

from capo.cli.arguments import RunPath, TaskName, about, check_seed, load_model
from capo.errors import check_least


def evaluate_run(
    run: RunPath,
    episodes: int = 20,
    seed: int | None = None,
    env: TaskName = None,
    ema: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Evaluate a trained policy: mean return, standard error, length.

    Example: capo eval runs/Hopper-v4__capo__1__* --episodes 100

    Args:
        run: A run folder or a model file.
        episodes: Number of episodes.
        seed: Seed of the episodes; default: derived from the seed of the run.
        env: The task to play instead of the model's own, with the same spaces.
        ema: Evaluate the average of the policy over generations, of a run with --ema.
        as_json: Print JSON with every episode instead of text.
    """
    check_least("episodes", episodes)
    check_seed(seed)
    from capo.evaluation import evaluate

    model = load_model(run, env, ema)
    with about(run):
        result = evaluate(model, episodes, seed)
    if as_json:
        named = {"env_id": model.config.env_id, "algo": model.config.algo, **result.to_dict()}
        print(json.dumps(named, indent=2))
    else:
        which = ", average over generations" if ema else ""
        print(f"{model.config.env_id}, {model.config.algo}{which}: {result.describe()}")
    return 0
