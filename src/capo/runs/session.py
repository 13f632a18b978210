"""The driver of a run: compile, restore, train, record, evaluate.

`capo train` and `Algorithm.learn` both run a `Session`, so that they cannot differ.
"""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from capo.callbacks import (
    Callback,
    EvalCallback,
    StopOnReturn,
    follow,
    give_environments,
    restore_states,
)
from capo.envs.base import VectorEnv
from capo.envs.timeouts import TimeoutEnv
from capo.errors import UsageError, name_of
from capo.evaluation import Evaluation
from capo.learner import Learner
from capo.runs.folder import BEST, RunFolder, check_free, claim
from capo.runs.interrupts import Interrupt
from capo.runs.messages import headline, theorem_note
from capo.runs.options import Options
from capo.runs.reporter import Reporter
from capo.runs.resume import Resumed, restore
from capo.runs.tracking import check_tracking
from capo.train import compile_programs


class Session:
    """One run of a learner, with a run folder or without."""

    def __init__(
        self,
        learner: Learner,
        folder: Path | None,
        options: Options,
        reporter: Reporter,
        resumed: Resumed | None = None,
        *,
        replay: bool = True,
        owns_process: bool = False,
    ):
        """Checks `folder`, which nothing is written to yet; None records nothing.

        A resumed run keeps its own folder, and `run` releases its lock however it ends. Without
        `replay` it begins new episodes. With `owns_process`, which is not for a library, signals
        are handled, and the process ends if an environment hangs in C.
        """
        self.learner, self._options = learner, options
        self._reporter, self._resumed = reporter, resumed
        self._replay, self._hard = replay, owns_process
        if options.track is not None:
            check_tracking(options.track)
        self._path = folder if resumed is None else resumed.folder
        if self._path is None and options.track is not None:
            raise UsageError(f"{name_of('track')} needs a {name_of('run_dir')}")
        if self._path is not None and resumed is None:
            check_free(self._path)
        self.folder: RunFolder | None = None
        """The run folder, once it is open."""

    def run(self, callbacks: Iterable[Callback] = ()) -> int | None:
        """Trains to the end and evaluates. Returns the number of the signal that ended it early."""
        learner = self.learner
        with contextlib.ExitStack() as stack:
            if self._resumed is not None:
                stack.enter_context(self._resumed.lock)
            callbacks = [*self._watching(), *callbacks]
            env = learner.env
            self._reporter.note(headline(learner.config, env))
            self._compile()
            if self._resumed is not None:
                self._restore(self._resumed, env, callbacks)
            if self._path is not None:
                if self._resumed is None:
                    stack.enter_context(claim(self._path))
                self.folder = self._open(self._path, env, callbacks)
                stack.enter_context(self.folder.guarded())
            number = self._train(callbacks)
            if self.folder is not None:
                self._finish(self.folder, number)
        return number

    def _watching(self) -> list[Callback]:
        """The callbacks that the options ask for."""
        options, batch = self._options, self.learner.config.batch_size
        watching: list[Callback] = []
        if options.eval_every is not None:
            best = None if self._path is None else self._path / BEST
            every = max(1, round(options.eval_every / batch))
            watching.append(
                EvalCallback(every=every, episodes=options.eval_episodes, best_path=best)
            )
            give_environments(watching, self.learner.source, options.env_timeout)
        if options.stop_at is not None:
            key = "return" if options.eval_every is None else "eval/return"
            watching.append(StopOnReturn(options.stop_at, key))
        return watching

    def _compile(self) -> None:
        began = time.perf_counter()
        with self._reporter.compiling():
            compile_programs(self.learner.config, self.learner.last)
        self._reporter.note(f"compiling took {time.perf_counter() - began:.1f} s")

    def _restore(self, resumed: Resumed, env: VectorEnv, callbacks: list[Callback]) -> None:
        """Continues from the checkpoint, with callbacks and environments as they were then."""
        restore_states(callbacks, resumed.checkpoint.callbacks)
        self._reporter.note(f"resuming from {resumed.checkpoint.path}")
        limited = TimeoutEnv(env, self.learner.source.name, self._options.env_timeout, self._hard)
        self.learner.continue_from(restore(resumed, limited, self._replay, self._reporter.warn))

    def _open(self, path: Path, env: VectorEnv, callbacks: list[Callback]) -> RunFolder:
        folder = RunFolder(path, self.learner.config, env.backend, self._options, self._resumed)
        folder.callbacks = callbacks
        return folder

    def _train(self, callbacks: list[Callback]) -> int | None:
        """Follows the generations until the end, a callback or a signal stops them."""
        learner, hard = self.learner, self._hard
        record = [] if self.folder is None else [self.folder.record]
        interrupt, done = Interrupt(), learner.last.number + 1
        with contextlib.ExitStack() as stack:
            if hard:
                stack.enter_context(interrupt.listening())
            show = stack.enter_context(self._reporter.progress(learner.config, done))
            steps = learner.generations(self._options.env_timeout, hard)
            follow(steps, [*callbacks, *record, show, interrupt])
            if self.folder is not None:
                self.folder.checkpoint()
        return interrupt.number

    def _finish(self, folder: RunFolder, number: int | None) -> None:
        """Evaluates a run that came to its end, and closes the folder."""
        if said := theorem_note(folder.rows()):
            self._reporter.note(said)
        if number is not None:
            folder.finish("interrupted")
            steps = self.learner.num_timesteps
            self._reporter.note(f"interrupted after {steps} steps")
            return
        result = self._evaluate()
        folder.finish("finished", result)
        if result is not None:
            self._reporter.note(f"evaluation: {result.describe()}")

    def _evaluate(self) -> Evaluation | None:
        """The final evaluation, if episodes are asked for."""
        options = self._options
        if not options.eval_episodes:
            return None
        limits = {"env_timeout": options.env_timeout, "end_process": self._hard}
        return self.learner.evaluate(options.eval_episodes, **limits)
