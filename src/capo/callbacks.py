"""Callbacks: functions `callback(step, info)` called after each generation.

`step` is the `Generation`: `step.model` can act, be saved and be evaluated, `step.state` holds the
networks and their optimizers, `step.number` counts from 0. `info` is the row of metrics. Returning
False ends the run. An object may also have `finish(step)`, which is called at the end of the run,
also after an error, and `state()` and `restore(state)`: plain values that are saved in checkpoints
and restored by a resumed run.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from capo.envs.adapters import EnvSource, with_timeout
from capo.errors import UsageError, check_least
from capo.evaluation import Evaluation, evaluate
from capo.model import Model
from capo.state import Generation

Callback = Callable[[Generation, dict[str, float]], Any]


def follow(steps: Iterator[Generation], callbacks: Iterable[Callback]) -> Generation | None:
    """Calls the callbacks after each generation, until the run ends or one of them returns False.

    Returns the last generation. Calls `finish` of the callbacks that have it, also after an error.
    """
    callbacks = list(callbacks)
    last: Generation | None = None
    try:
        for last in steps:
            answers = [callback(last, last.info) for callback in callbacks]
            if any(answer is False for answer in answers):
                break
    finally:
        if last is not None:
            for callback in callbacks:
                getattr(callback, "finish", _nothing)(last)
    return last


def _nothing(_: Generation) -> None:
    pass


def restore_states(callbacks: Iterable[Callback], saved: Iterable[Sequence[Any]]) -> None:
    """Restores callbacks from the saved [name, state] of callbacks of the same class."""
    left = list(saved)
    for callback in callbacks:
        name = type(callback).__name__
        if hasattr(callback, "restore") and (mine := [pair for pair in left if pair[0] == name]):
            left.remove(mine[0])
            callback.restore(mine[0][1])  # pyright: ignore[reportFunctionMemberAccess]


def give_environments(
    callbacks: Iterable[Callback], source: EnvSource, env_timeout: float | None
) -> None:
    """Gives `source`, with a time-out, to every `EvalCallback` without environments of its own."""
    for callback in callbacks:
        if isinstance(callback, EvalCallback) and callback.env is None:
            if source.fixed_num_envs is not None:
                raise UsageError(
                    "EvalCallback needs environments of its own, because the learner cannot make "
                    "more of those it was given: EvalCallback(env=…)"
                )
            callback.env = with_timeout(source, env_timeout)


def _generations(step: Generation, every: int, frequency: int | None) -> int:
    """Generations between two calls; `frequency` is in steps of each environment."""
    return every if frequency is None else max(1, round(frequency / step.model.config.num_steps))


def _check_rest(name: str, rest: dict[str, Any], known: Sequence[str]) -> None:
    """Refuses keywords that are not known, except one that changes nothing here."""
    rest.pop("verbose", None)
    if rest:
        raise UsageError(f"{name} has no {', '.join(rest)}; it has {', '.join(known)}")


class StopOnReturn:
    """Ends the run once the mean return of the last 100 training episodes reaches `threshold`.

    With another `key` of the metrics it is that number, such as `eval/return` of an `EvalCallback`
    that comes before.
    """

    def __init__(self, threshold: float, key: str = "return"):
        self.threshold, self.key = threshold, key

    def __call__(self, step: Generation, info: dict[str, float]) -> bool:
        return not info.get(self.key, math.nan) >= self.threshold


class CheckpointCallback:
    """Saves the model each `every` generations and at the end of the run.

    Files are `folder/model_{steps}.safetensors`; the last `keep` of them are kept (None: all).
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        every: int = 10,
        keep: int | None = None,
        **stable: Any,
    ):
        """Takes `save_path`, `save_freq` and `name_prefix` of Stable-Baselines3, too."""
        folder = stable.pop("save_path", folder)
        if folder is None:
            raise UsageError('CheckpointCallback("folder"): where are the models to be saved?')
        self._frequency = stable.pop("save_freq", None)
        self._prefix = stable.pop("name_prefix", "model")
        _check_rest("CheckpointCallback", stable, ("folder", "every", "keep"))
        check_least("every", every)
        if keep is not None:
            check_least("keep", keep)
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.saved: list[Path] = []
        """The saved files, oldest first."""

    def __call__(self, step: Generation, info: dict[str, float]) -> None:
        if (step.number + 1) % _generations(step, self.every, self._frequency) == 0:
            self._save(step)

    def finish(self, step: Generation) -> None:
        """Saves the last generation, unless it is saved already."""
        self._save(step)

    def state(self) -> list[str]:
        """The names of the saved files."""
        return [path.name for path in self.saved]

    def restore(self, state: list[str]) -> None:
        """Continues with the files of `state`, by name alone: old ones will be deleted."""
        self.saved = [self.folder / Path(name).name for name in state]

    def _save(self, step: Generation) -> None:
        path = self.folder / f"{self._prefix}_{step.info['steps']:.0f}.safetensors"
        if path in self.saved:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        step.model.save(path)
        self.saved.append(path)
        while self.keep is not None and len(self.saved) > self.keep:
            self.saved.pop(0).unlink(missing_ok=True)


class EvalCallback:
    """Evaluates each `every` generations and keeps the best model.

    Every evaluation plays the same episodes, so differences are due to the policy. The environments
    are separate from those of training: the learner's task, or `env` (anything that an algorithm
    takes). The mean return is added to the row of metrics as `eval/return`.
    """

    def __init__(
        self,
        env: Any = None,
        *,
        every: int = 10,
        episodes: int = 10,
        best_path: str | Path | None = "best.safetensors",
        deterministic: bool = True,
        **stable: Any,
    ):
        """Takes `n_eval_episodes`, `eval_freq` (steps of each environment) and
        `best_model_save_path` (a folder) of Stable-Baselines3, too.
        """
        if isinstance(env, int):
            raise UsageError(f"the first argument is env; write EvalCallback(every={env})")
        env, episodes = stable.pop("eval_env", env), stable.pop("n_eval_episodes", episodes)
        self._frequency = stable.pop("eval_freq", None)
        if (folder := stable.pop("best_model_save_path", None)) is not None:
            best_path = Path(folder) / "best_model.safetensors"
        _check_rest("EvalCallback", stable, ("env", "every", "episodes", "best_path"))
        check_least("every", every)
        check_least("episodes", episodes)
        self.every, self.episodes, self.deterministic = every, episodes, deterministic
        self.env, self.best_path = env, None if best_path is None else Path(best_path)
        self.results: list[tuple[int, Evaluation]] = []
        """(steps, evaluation) of each evaluation."""
        self.best: Model | None = None
        self.best_return = -math.inf

    def __call__(self, step: Generation, info: dict[str, float]) -> None:
        if (step.number + 1) % _generations(step, self.every, self._frequency):
            return
        result = evaluate(step.model, self.episodes, deterministic=self.deterministic, env=self.env)
        self.results.append((int(info["steps"]), result))
        info["eval/return"] = result.mean
        if result.mean > self.best_return:
            self.best, self.best_return = step.model, result.mean
            if self.best_path is not None:
                self.best_path.parent.mkdir(parents=True, exist_ok=True)
                step.model.save(self.best_path)

    def state(self) -> dict[str, Any]:
        """The evaluations so far. The best model is in its file."""
        results = [
            [steps, each.returns, each.lengths, each.cut, list(each.successes)]
            for steps, each in self.results
        ]
        return {"results": results, "best_return": self.best_return if results else None}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues after the evaluations of `state`."""
        self.results = [
            (steps, Evaluation(returns, lengths, cut, tuple(successes)))
            for steps, returns, lengths, cut, successes in state["results"]
        ]
        if state["best_return"] is not None:
            self.best_return = state["best_return"]
        if self.best_path is not None and self.best_path.is_file():
            self.best = Model.load(self.best_path)
