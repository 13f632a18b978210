"""What may look on after each generation: `callback(step, info)`; returning False ends the run.

`step` is the `Generation`: `step.model` acts, saves and is evaluated, `step.state` has the networks
and their optimizers, `step.number` counts from 0. `info` is the row of metrics. Any function will
do. An object may also have `finish(step)`, which is called when the run ends, however it ends, and
`state()` and `restore(state)`, plain values that checkpoints keep and a resumed run gives back.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from capo.config import check_least
from capo.evaluation import Evaluation, evaluate
from capo.model import Model
from capo.train import Generation

Callback = Callable[[Generation, dict[str, float]], Any]


def follow(steps: Iterator[Generation], callbacks: Iterable[Callback]) -> Generation | None:
    """Lets the callbacks see each generation, until the run ends or one of them returns False.

    Returns the last generation. `finish` of those that have it is called even after an error.
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
    """Gives callbacks the [name, state] of those of the same kind in a run that is resumed."""
    left = list(saved)
    for callback in callbacks:
        name = type(callback).__name__
        if hasattr(callback, "restore") and (mine := [pair for pair in left if pair[0] == name]):
            left.remove(mine[0])
            callback.restore(mine[0][1])  # pyright: ignore[reportFunctionMemberAccess]


class StopOnReturn:
    """Ends the run once the mean return of the last 100 training episodes reaches `threshold`."""

    def __init__(self, threshold: float):
        self.threshold = threshold

    def __call__(self, step: Generation, info: dict[str, float]) -> bool:
        return not info["return"] >= self.threshold


class CheckpointCallback:
    """Saves the model every so many generations, and at the end, however it comes.

    Files are `folder/model_{steps}.safetensors`; the last `keep` of them stay (None: all).
    """

    def __init__(self, folder: str | Path, every: int = 10, keep: int | None = None):
        check_least("every", every)
        if keep is not None:
            check_least("keep", keep)
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.saved: list[Path] = []
        """The files that are there, oldest first."""

    def __call__(self, step: Generation, info: dict[str, float]) -> None:
        if (step.number + 1) % self.every == 0:
            self._save(step)

    def finish(self, step: Generation) -> None:
        """Saves the last generation, if that is not done yet."""
        self._save(step)

    def state(self) -> list[str]:
        """The names of the files that are there."""
        return [path.name for path in self.saved]

    def restore(self, state: list[str]) -> None:
        """Goes on with the files of `state`; only names count, as these will be removed."""
        self.saved = [self.folder / Path(name).name for name in state]

    def _save(self, step: Generation) -> None:
        path = self.folder / f"model_{step.info['steps']:.0f}.safetensors"
        if path in self.saved:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        step.model.save(path)
        self.saved.append(path)
        while self.keep is not None and len(self.saved) > self.keep:
            self.saved.pop(0).unlink(missing_ok=True)


class EvalCallback:
    """Evaluates every so many generations and keeps the best model.

    The same episodes are played each time, so that differences are the policy's, in environments of
    their own: the learner's task again, or `env` (whatever an algorithm takes for one). The mean
    return goes into the row of metrics as `eval/return`.
    """

    def __init__(
        self,
        every: int = 10,
        episodes: int = 10,
        best_path: str | Path | None = "best.safetensors",
        env: Any = None,
        deterministic: bool = True,
    ):
        check_least("every", every)
        check_least("episodes", episodes)
        self.every, self.episodes, self.deterministic = every, episodes, deterministic
        self.env, self.best_path = env, None if best_path is None else Path(best_path)
        self.results: list[tuple[int, Evaluation]] = []
        """(steps, evaluation) of each time."""
        self.best: Model | None = None
        self.best_return = -math.inf

    def __call__(self, step: Generation, info: dict[str, float]) -> None:
        if (step.number + 1) % self.every:
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
        """The evaluations so far; the best model is in its file."""
        results = [[steps, found.returns, found.lengths] for steps, found in self.results]
        return {"results": results, "best_return": self.best_return if results else None}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on after the evaluations of `state`."""
        self.results = [(steps, Evaluation(*found)) for steps, *found in state["results"]]
        if state["best_return"] is not None:
            self.best_return = state["best_return"]
        if self.best_path is not None and self.best_path.is_file():
            self.best = Model.load(self.best_path)
