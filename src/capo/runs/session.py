"""The driver of a run: compile, restore, train, record, evaluate.

`capo train` and `Algorithm.learn` both run a `Session`, so that they cannot differ.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capo.callbacks import Callback, follow, restore_states
from capo.envs.adapters import EnvSource, encode_observations, with_timeout
from capo.envs.base import VectorEnv
from capo.envs.timeouts import TimeoutEnv
from capo.errors import UsageError, check_least, name_of
from capo.evaluation import Evaluation, evaluate
from capo.methods import Settled, settle
from capo.model import Model
from capo.runs.folder import Recording, RunFolder, check_free
from capo.runs.interrupts import Interrupt
from capo.runs.messages import headline, theorem
from capo.runs.reporter import Reporter
from capo.runs.resume import Resumed, restore
from capo.runs.tracking import check_tracking
from capo.state import Generation
from capo.train import compile_generation, generations


@dataclass(frozen=True)
class Options:
    """How a run is driven. None of these settings changes its numbers."""

    recording: Recording
    env_timeout: float = 0.0
    """Seconds that a step or reset of the environments may take; 0: no limit."""
    eval_episodes: int = 20
    """Episodes of the evaluation at the end of a run with a folder; 0: no evaluation."""
    replay: bool = True
    """Replay the actions of a resumed run; otherwise its environments begin new episodes."""
    owns_process: bool = False
    """Handle signals, and end the process if an environment hangs in C. Not for a library."""

    def __post_init__(self) -> None:
        check_least("eval_episodes", self.eval_episodes, 0)
        check_least("env_timeout", self.env_timeout, 0)
        if self.recording.every is not None:
            check_least("checkpoint_every", self.recording.every, 0)
        if self.recording.track is not None:
            check_tracking(self.recording.track)


class Session:
    """One run, with a run folder or without."""

    def __init__(
        self,
        config: Settled,
        source: EnvSource,
        folder: Path | None,
        options: Options,
        reporter: Reporter,
        resumed: Resumed | None = None,
    ):
        """Checks `folder`, which nothing is written to yet; None records nothing.

        A resumed run keeps its own folder, which `run` closes however it ends. `source` makes the
        environments of the final evaluation.
        """
        self.config, self._source, self._options = config, source, options
        self._reporter, self._resumed = reporter, resumed
        self._path = folder if resumed is None else resumed.folder
        if self._path is None and options.recording.track is not None:
            raise UsageError(f"{name_of('track')} needs a {name_of('run_dir')}")
        if self._path is not None and resumed is None:
            check_free(self._path)
        self.folder: RunFolder | None = None
        """The run folder, once it is open."""
        self.last: Generation | None = None
        """The last whole generation."""

    def run(
        self,
        env: VectorEnv | None = None,
        start: Generation | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> int | None:
        """Trains to the end and evaluates. Returns the number of the signal that ended it early.

        `env` stays open; without it, `source` makes the environments. `start` is the generation to
        continue from, with the environments in place; None: restored from the resumed checkpoint,
        or the beginning.
        """
        callbacks = list(callbacks)
        with contextlib.ExitStack() as stack:
            if self._resumed is not None:
                stack.callback(self._resumed.close)
            if env is None:
                env = self._source.make_for(self.config)
                stack.callback(env.close)
            self.config = settle(self.config, env.observation_space)
            self._reporter.note(headline(self.config, env))
            env = encode_observations(env, self.config)
            self._compile(env)
            if self._resumed is not None:
                restore_states(callbacks, self._resumed.checkpoint.callbacks)
            self.last = self._restore(env) if start is None else start
            if self._path is not None:
                self.folder = self._open(self._path, env, callbacks)
                stack.enter_context(self.folder.guarded())
            number = self._train(env, callbacks)
            if self.folder is not None:
                self._finish(self.folder, number)
        return number

    def _compile(self, env: VectorEnv) -> None:
        with self._reporter.compiling():
            spaces = (env.observation_space, env.action_space)
            seconds = compile_generation(self.config, *spaces)
        self._reporter.note(f"compiling took {seconds:.1f} s")

    def _restore(self, env: VectorEnv) -> Generation | None:
        """The generation of the resumed checkpoint, with the environments in place."""
        if self._resumed is None:
            return None
        options = self._options
        self._reporter.note(f"resuming from {self._resumed.checkpoint.path}")
        limited = TimeoutEnv(env, self.config.env_id, options.env_timeout, options.owns_process)
        return restore(self._resumed, limited, options.replay, self._reporter.warn)

    def _open(self, path: Path, env: VectorEnv, callbacks: list[Callback]) -> RunFolder:
        recording = self._options.recording
        folder = RunFolder(path, self.config, env.backend, recording, self._resumed)
        folder.callbacks = callbacks
        return folder

    def _train(self, env: VectorEnv, callbacks: list[Callback]) -> int | None:
        """Follows the generations until the end, a callback or a signal stops them."""
        start, hard = self.last, self._options.owns_process
        steps = generations(self.config, env, start, self._options.env_timeout, hard)
        record = [] if self.folder is None else [self.folder.record]
        interrupt, done = Interrupt(), start.number + 1 if start else 0
        with contextlib.ExitStack() as stack:
            if hard:
                stack.enter_context(interrupt.listening())
            show = stack.enter_context(self._reporter.progress(self.config, done))
            follow(steps, [self._keep, *callbacks, *record, show, interrupt])
            if self.folder is not None:
                self.folder.checkpoint()
        return interrupt.number

    def _keep(self, step: Generation, _: dict[str, Any]) -> None:
        self.last = step

    def _finish(self, folder: RunFolder, number: int | None) -> None:
        """Evaluates a run that came to its end, and closes the folder."""
        assert self.last is not None
        if said := theorem(folder.rows()):
            self._reporter.note(said)
        if number is not None:
            folder.finish("interrupted")
            self._reporter.note(f"interrupted after {self.last.info['steps']:.0f} steps")
            return
        models = {"evaluation": self.last.model, "evaluation of the average": self.last.averaged}
        results = {name: self._evaluate(model) for name, model in models.items()}
        folder.finish("finished", *results.values())
        for name, result in results.items():
            if result is not None:
                self._reporter.note(f"{name}: {result.describe()}")

    def _evaluate(self, model: Model | None) -> Evaluation | None:
        """The final evaluation of a model, if there is one and episodes are asked for."""
        options = self._options
        if model is None or not options.eval_episodes:
            return None
        source = with_timeout(self._source, options.env_timeout, options.owns_process)
        return evaluate(model, options.eval_episodes, env=source)
