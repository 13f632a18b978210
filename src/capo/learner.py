"""A learner one holds: learn, predict, save, load, with the gestures of Stable-Baselines3."""

import contextlib
import dataclasses
import difflib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np

from capo.adam import init_optimizer
from capo.adapters import Source, encoded, own_source, source_for, source_of
from capo.backend import prepare_backend
from capo.callbacks import Callback, EvalCallback, follow, restore_states
from capo.config import Config, UsageError
from capo.console import shown
from capo.envs import VectorEnv
from capo.evaluation import Evaluation, evaluate
from capo.methods import resolve
from capo.model import Model, blank_model, check_fit
from capo.networks import Policy, to_host
from capo.resuming import Resumed, reopen, take_up
from capo.rollout import Collector, reset_seed
from capo.runs import Recording, RunFolder, find_model
from capo.train import Generation, Recent, generations
from capo.update import TrainState

POLICIES = {"MlpPolicy": "mlp", "CnnPolicy": "cnn", "MultiInputPolicy": "mlp"}
"""The names of Stable-Baselines3, and the networks they mean here."""
BATCH = Config.num_envs * Config.num_steps
SUFFIX = ".safetensors"
Learner = TypeVar("Learner", bound="Algorithm")


class Algorithm:
    """A learner: a policy, the environments it learns in, and how far it has come.

    `policy` is "MlpPolicy" or "CnnPolicy" (or "auto": by the observations). `env` is an id, a
    Gymnasium Env, a function that makes one, a Gymnasium VectorEnv or an EnvPool; with a single Env
    there is one environment, and `num_steps` becomes 4096, the usual batch, if it is not given.
    `fields` are those of `capo.Config`.
    """

    algo: ClassVar[str]
    """The row of the table of methods."""

    def __init__(self, policy: str, env: Any, *, seed: int = Config.seed, **fields: Any):
        if policy not in POLICIES and policy != "auto":
            names = ", ".join(POLICIES)
            raise UsageError(f"unknown policy {policy!r}; there are {names} and auto")
        _check_fields(fields)
        source = source_of(env, fields.get("backend", Config.backend))
        if source.fixed is not None:
            fields = _sized(source.fixed, fields)
        if fields.get("workers") and not isinstance(env, str):
            raise UsageError("workers can step only what they can make, so env must be an id")
        network: Any = POLICIES.get(policy, policy)
        config = Config(source.name, algo=self.algo, seed=seed, network=network, **fields)
        self._begin(resolve(config), source)
        observation, action = self._open().observation_space, self._open().action_space
        self._model = blank_model(self._config, observation, action)
        self._config = self._model.config

    def _begin(self, config: Config, source: Source) -> None:
        prepare_backend()
        self._config, self._source = config, source
        self._env: VectorEnv | None = None
        self._last: Generation | None = None
        self._stale = False
        self._resumed: Resumed | None = None
        self._rng = np.random.default_rng(config.seed)

    @property
    def config(self) -> Config:
        """Every number and switch, with each `auto` settled."""
        return self._config

    @property
    def model(self) -> Model:
        """What is saved: networks, statistics, spaces and configuration."""
        return self._model

    @property
    def policy(self) -> Policy:
        """The policy network, an Equinox module with NumPy leaves."""
        return self._model.policy

    @property
    def observation_space(self) -> gym.Space:
        """Of one environment."""
        return self._model.observation_space

    @property
    def action_space(self) -> gym.Space:
        """Of one environment."""
        return self._model.action_space

    @property
    def num_timesteps(self) -> int:
        """Environment steps learned from so far."""
        return 0 if self._last is None else (self._last.number + 1) * self._config.batch_size

    def learn(
        self: Learner,
        total_timesteps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress_bar: bool = True,
        run_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        env_timeout: float = 0.0,
    ) -> Learner:
        """Learns from `total_timesteps` more steps, in whole batches.

        A second call goes on where the first ended; the learning rate then falls to 0 over all
        steps asked for so far. `run_dir` leaves a run folder with checkpoints, as `capo train`
        does, each `checkpoint_every` generations (None: about 20 times), to `resume` from. A step
        or reset of the environments that takes more than `env_timeout` seconds is an `EnvError`.
        Callbacks see every generation (`capo.callbacks`). An error or interruption leaves the
        learner as it was after the last whole generation. A resumed run needs no arguments: it
        takes the steps that are left, in its own folder.
        """
        config, resumed = self._asked(total_timesteps), self._resumed
        callbacks = self._callbacks(callback)
        env = self._open()
        check_fit(self._model, env.observation_space, env.action_space, self._source.name)
        start = self._start()
        self._config = config
        with contextlib.ExitStack() as stack:
            run, recorders = None, []
            folder = run_dir if resumed is None else resumed.folder
            if folder is not None:
                recording = Recording(checkpoint_every)
                run = RunFolder(Path(folder), config, env.backend, recording, resumed)
                run.callbacks, self._resumed = callbacks, None
                stack.enter_context(run.guarded())
                recorders.append(run.see)
            if progress_bar:
                done = 0 if start is None else start.number + 1
                recorders.append(stack.enter_context(shown(config, env, done)))
            # If it does not end well, the environments stand somewhere within a batch.
            self._stale = True
            steps = generations(config, env, start, env_timeout)
            follow(steps, [self._keep, *callbacks, *recorders])
            self._stale = False
            if run is not None:
                run.checkpoint()
                run.finish("finished", self.evaluate())
        return self

    def _asked(self, total_timesteps: int | None) -> Config:
        """The configuration with the steps asked for, after those there are."""
        if total_timesteps is None:
            if self._resumed is None:
                raise UsageError("learn(total_timesteps): how many steps is it to learn from?")
            return self._config
        # Asked of these steps alone: with those before them, they would always be enough.
        self._config.replace(total_steps=total_timesteps)
        return self._config.replace(total_steps=self.num_timesteps + total_timesteps)

    def _keep(self, step: Generation, _: dict[str, float]) -> None:
        self._last, self._model = step, step.model

    def _callbacks(self, callback: Callback | Sequence[Callback] | None) -> list[Callback]:
        found = [callback] if callable(callback) else list(callback or ())
        for each in found:
            if isinstance(each, EvalCallback) and each.env is None:
                if self._source.fixed is not None:
                    raise UsageError(
                        "EvalCallback needs environments of its own, as the learner was given one "
                        "to learn in: EvalCallback(env=…)"
                    )
                each.env = self._source
        if self._resumed is not None:
            restore_states(found, self._resumed.checkpoint.callbacks)
        return found

    def _open(self) -> VectorEnv:
        """The environments that are learned in, made when they are first needed."""
        if self._env is None:
            config = self._config
            env = self._source.make(config.num_envs, config.seed, config.workers)
            self._env = encoded(env, config)
        return self._env

    def _start(self) -> Generation | None:
        """Where to go on from; environments that others have stepped begin new episodes."""
        if self._last is not None and self._stale:
            stats = (self._model.obs_stats, self._model.return_stats)
            seed = reset_seed(self._config, self._last.number)
            collector = Collector.begin(self._open(), *stats, seed)
            self._last = self._last._replace(collector=collector)
        self._stale = False
        return self._last

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Actions for an observation or n of them, and the state to pass to the next call."""
        return self._model.predict(observation, state, episode_start, deterministic, self._rng)

    def evaluate(
        self,
        episodes: int = 20,
        deterministic: bool = True,
        seed: int | None = None,
        env: Any = None,
    ) -> Evaluation:
        """Plays whole episodes with frozen statistics, in fresh environments where there can be."""
        if env is None:
            self._stale = self._stale or self._source.fixed is not None
        where = self._source if env is None else env
        return evaluate(self._model, episodes, seed, deterministic, where)

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file; `.safetensors` is added to a name without an ending."""
        self._model.save(_with_suffix(Path(path)))

    @classmethod
    def load(cls: type[Learner], path: str | Path, env: Any = None) -> Learner:
        """Reads what `save` wrote, or the model of a run folder; loading runs no code.

        Without `env` the model's own task is made when it is needed. Learning begins with the
        loaded networks and statistics, and with empty Adam moments and a schedule of its own.
        """
        path = Path(path)
        if not path.exists():
            path = _with_suffix(path)
        model = Model.load(find_model(path))
        cls._check_algo(model, path)
        learner = cls.__new__(cls)
        # How many processes are good is a matter of the machine, not of a file.
        learner._begin(model.config.replace(workers=None), own_source(model.config))
        learner._model = model
        learner._last = _first(model)
        learner._stale = True
        if env is not None:
            learner.set_env(env)
        return learner

    @classmethod
    def _check_algo(cls, model: Model, path: Path) -> None:
        if model.config.algo != cls.algo:
            kinds = (kind for kind in Algorithm.__subclasses__() if kind.algo == model.config.algo)
            right = next((kind.__name__ for kind in kinds), "Model")
            raise UsageError(f"{path} is a {model.config.algo} model; load it with {right}.load")

    @classmethod
    def resume(
        cls: type[Learner], run_dir: str | Path, env: Any = None, replay: bool = True
    ) -> Learner:
        """Goes on with a run of `learn(run_dir=…)` or `capo train`, from its last checkpoint.

        `learn()` then ends as it would have ended without the interruption, bit for bit: the
        environments (the run's own task, or `env`) are brought back to where they stood by playing
        their last actions again. Without `replay` they begin new episodes instead.
        """
        found = reopen(Path(run_dir), None, False, _warn)
        try:
            model = found.checkpoint.step.model
            cls._check_algo(model, Path(run_dir))
            learner = cls.__new__(cls)
            learner._begin(model.config, source_for(model.config, env))
            learner._model, learner._resumed = model, found
            learner._last = take_up(found, learner._open(), replay, _warn)
        except BaseException:
            found.close()
            raise
        return learner

    def set_env(self, env: Any) -> None:
        """Goes on in other environments, which must have the same spaces."""
        source = source_of(env, self._config.backend)
        fields = {} if source.fixed is None else _sized(source.fixed, {})
        config = self._config.replace(env_id=source.name, **fields)
        made = source.make(config.num_envs, config.seed, config.workers)
        check_fit(self._model, made.observation_space, made.action_space, source.name)
        if self._env is not None and self._source.fixed is None:
            self._env.close()
        if self._last is not None:
            done = self.num_timesteps // config.batch_size
            self._last = self._last._replace(number=done - 1)
        self._config, self._source, self._stale = config, source, True
        self._model = dataclasses.replace(self._model, config=config)
        self._env = encoded(made, config)


def _first(model: Model) -> Generation:
    """The generation before the first, with the networks and statistics of a loaded model."""
    networks = (model.policy, model.critic)
    moments = (init_optimizer(model.config, network) for network in networks)
    nowhere = np.zeros(0)
    collector = Collector(nowhere, model.obs_stats, model.return_stats, *[nowhere] * 3, seed=0)
    return Generation(-1, to_host(TrainState(*networks, *moments)), collector, Recent(), model, {})


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _check_fields(fields: dict[str, Any]) -> None:
    known = {field.name for field in dataclasses.fields(Config)}
    taken = {"env_id", "algo", "network", "total_steps"}
    for name in fields:
        if name not in known - taken:
            close = difflib.get_close_matches(name, known - taken, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"there is no field {name!r} in capo.Config{hint}")


def _sized(num_envs: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Adds the number of environments, and as many steps as make a batch of the usual size."""
    if fields.get("num_envs", num_envs) != num_envs:
        raise UsageError(f"num_envs is {fields['num_envs']}, but {num_envs} environments came in")
    return {"num_steps": max(1, BATCH // num_envs), **fields, "num_envs": num_envs}


def _with_suffix(path: Path) -> Path:
    return path if path.suffix else path.with_suffix(SUFFIX)
