"""capo eval."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from capo.cli.arguments import TaskOptions, about, check_seed, load_model
from capo.errors import UsageError, check_least

if TYPE_CHECKING:
    from capo.evaluation import Evaluation
    from capo.model import Model


def evaluate_runs(
    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(metavar="RUN…", help_behavior_hint="(one or more)"),
        tyro.conf.Positional,
    ],
    episodes: int = 20,
    seed: int | None = None,
    best: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    stochastic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    max_steps: int = 50_000,
    task: tyro.conf.OmitArgPrefixes[TaskOptions] = TaskOptions(),  # noqa: B008 (frozen)
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Evaluate trained policies: mean return, standard error, length.

    Example: capo eval runs/Hopper-v4__capo__1__* --episodes 100

    Args:
        runs: Run folders, their checkpoints, or model files.
        episodes: Number of episodes.
        seed: Seed of the episodes; default: derived from the seed of the run.
        best: Take the best policy of a run that was evaluated in training (--eval-every).
        stochastic: Sample actions from the policy instead of the most likely ones.
        max_steps: Cut an episode that has not ended after this many steps.
        task: What is played.
        as_json: Print JSON with every episode instead of text.
    """
    check_least("episodes", episodes)
    check_least("max_steps", max_steps)
    check_seed(seed)
    if not runs:
        raise UsageError("name a run folder or a model file: capo eval RUN")
    from capo.evaluation import evaluate
    from capo.runs.folder import best_model

    models = [(run, load_model(best_model(run) if best else run, task)) for run in runs]
    results = []
    for run, model in models:
        with about(run):
            result = evaluate(model, episodes, seed, not stochastic, max_steps=max_steps)
        results.append((run, model, result))
    if as_json:
        listed = [_as_json(*each) for each in results]
        print(json.dumps(listed if len(listed) > 1 else listed[0], indent=2))
    elif len(results) == 1:
        _, model, result = results[0]
        print(f"{model.config.env_id}, {model.config.algo}: {result.describe()}")
    else:
        print("\n".join(_table(results)))
    return 0


def _as_json(run: Path, model: "Model", result: "Evaluation") -> dict[str, Any]:
    named = {"run": str(run), "env_id": model.config.env_id, "algo": model.config.algo}
    return {**named, **result.to_dict()}


def _table(results: "list[tuple[Path, Model, Evaluation]]") -> list[str]:
    """A line for each run."""
    from capo.report.format import aligned, with_error

    lines = [("run", "task", "method", "seed", "return", "length")]
    for run, model, result in results:
        config, length = model.config, sum(result.lengths) / len(result.lengths)
        score = with_error(result.mean, result.standard_error)
        cut = f" ({result.cut} cut)" if result.cut else ""
        named = (str(run), config.env_id, config.algo, str(config.seed))
        lines.append((*named, score, f"{length:.0f}{cut}"))
    return aligned(lines, right=(3, 4, 5))
