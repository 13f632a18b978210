"""The methods as classes with the API of Stable-Baselines3: learn, predict, save, load."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np

from capo.callbacks import Callback, give_environments
from capo.config import Config
from capo.core.networks import Policy
from capo.envs.adapters import EnvSource, choose_source, encode_observations, env_source
from capo.envs.base import VectorEnv
from capo.errors import UsageError
from capo.evaluation import Evaluation, evaluate
from capo.fields import check_names
from capo.methods import Settled, settle
from capo.model import Model, blank_model, check_fit
from capo.runs.folder import Recording, find_model
from capo.runs.progress import Terminal
from capo.runs.reporter import Silent
from capo.runs.resume import Resumed, reopen
from capo.runs.session import Options, Session
from capo.runs.tracking import Service
from capo.state import Generation, before_first, with_new_episodes
from capo.storage.compiled import prepare_jax

POLICIES = {"MlpPolicy": "mlp", "CnnPolicy": "cnn", "MultiInputPolicy": "mlp"}
"""Networks by their names in Stable-Baselines3."""
Learner = TypeVar("Learner", bound="Algorithm")


class Algorithm:
    """A learner: a policy, its environments, and the state of its training.

    `policy` is "MlpPolicy" or "CnnPolicy" (or "auto": by the observations). `env` is an id, a
    Gymnasium Env, a function that makes one, a Gymnasium VectorEnv or an EnvPool; with a single
    Env, `num_steps` is 4096 unless it is given. `fields` are those of `capo.Config`.
    """

    algo: ClassVar[str]
    """Name of the method."""

    def __init__(self, policy: str, env: Any, *, seed: int = Config.seed, **fields: Any):
        if policy not in POLICIES and policy != "auto":
            raise UsageError(f"unknown policy {policy!r}; there are {', '.join(POLICIES)} and auto")
        check_names(Config, fields, except_for=("env_id", "algo", "network", "total_steps"))
        source = env_source(env, fields.get("backend", Config.backend))
        fields = source.sized(fields)
        if fields.get("workers") and not isinstance(env, str):
            raise UsageError("workers can step only what they can make, so env must be an id")
        network: Any = POLICIES.get(policy, policy)
        config = Config(source.name, algo=self.algo, seed=seed, network=network, **fields)
        self._begin(settle(config), source)
        made = self._open()
        self._model = blank_model(self._config, made.observation_space, made.action_space)
        self._config = self._model.config

    def _begin(self, config: Config, source: EnvSource) -> None:
        prepare_jax()
        self._config, self._source = config, source
        self._env: VectorEnv | None = None
        self._last: Generation | None = None
        self._resumed: Resumed | None = None
        self._stale, self._replay = False, True
        self._rng = np.random.default_rng(config.seed)

    @property
    def config(self) -> Config:
        """The configuration, with each `auto` settled."""
        return self._config

    @property
    def model(self) -> Model:
        """The part that is saved: networks, statistics, spaces and configuration."""
        return self._model

    @property
    def policy(self) -> Policy:
        """The policy network, an Equinox module with NumPy leaves."""
        return self._model.policy

    @property
    def observation_space(self) -> gym.Space:
        """Observation space of one environment."""
        return self._model.observation_space

    @property
    def action_space(self) -> gym.Space:
        """Action space of one environment."""
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
        eval_episodes: int = 20,
        track: Service | None = None,
        track_project: str = "capo",
    ) -> Learner:
        """Learns from `total_timesteps` more steps, in whole batches.

        A second call continues where the first ended; the learning rate then falls to 0 over all
        steps asked for so far. A resumed run needs no arguments: it takes the steps that are left,
        in its own folder. Callbacks see every generation (`capo.callbacks`). An error or
        interruption leaves the learner as it was after the last whole generation.

        `run_dir` records the run as `capo train` does: a folder with a checkpoint each
        `checkpoint_every` generations (None: about 20 times) to `resume` from, metrics also sent
        to `track` ("wandb" or "trackio"), and an evaluation of `eval_episodes` at the end. A step
        or reset of the environments that takes more than `env_timeout` seconds is an `EnvError`.
        """
        config = self._asked(total_timesteps)
        callbacks = [callback] if callable(callback) else list(callback or ())
        give_environments(callbacks, self._source, env_timeout)
        recording = Recording(checkpoint_every, track, track_project)
        options = Options(recording, env_timeout, eval_episodes, self._replay)
        reporter = Terminal(messages=False) if progress_bar else Silent()
        folder = None if run_dir is None else Path(run_dir)
        session = Session(config, self._source, folder, options, reporter, self._resumed)
        self._run(session, callbacks)
        # The final evaluation has stepped the caller's own environments.
        self._stale = bool(session.folder and eval_episodes and self._source.fixed_num_envs)
        return self

    def _run(self, session: Session, callbacks: list[Callback]) -> None:
        env, start = self._open(), self._last
        check_fit(self._model, env.observation_space, env.action_space, self._source.name)
        if start is not None and self._stale:
            start = with_new_episodes(start, env, self._config)
        elif self._resumed is not None:
            start = None  # The session restores it.
        self._config, self._stale, self._resumed = session.config.plain(), True, None
        session.run(env, start, [self._keep, *callbacks])
        self._last = session.last

    def _asked(self, total_timesteps: int | None) -> Settled:
        """The configuration with the steps asked for added to those done."""
        if total_timesteps is None:
            if self._resumed is None:
                raise UsageError("learn(total_timesteps): how many steps is it to learn from?")
            return settle(self._config)
        # Checks these steps alone: together with those done they would always fill a batch.
        self._config.replace(total_steps=total_timesteps)
        return settle(self._config.replace(total_steps=self.num_timesteps + total_timesteps))

    def _keep(self, step: Generation, _: dict[str, float]) -> None:
        self._last, self._model = step, step.model

    def _open(self) -> VectorEnv:
        """The training environments, made on first use."""
        if self._env is None:
            self._env = encode_observations(self._source.make_for(self._config), self._config)
        return self._env

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch, and the state to pass to the next call."""
        return self._model.predict(observation, state, episode_start, deterministic, self._rng)

    def evaluate(
        self,
        episodes: int = 20,
        deterministic: bool = True,
        seed: int | None = None,
        env: Any = None,
    ) -> Evaluation:
        """Plays whole episodes with frozen statistics, in new environments where possible."""
        if env is None:
            env, self._stale = self._source, self._stale or self._source.fixed_num_envs is not None
        return evaluate(self._model, episodes, seed, deterministic, env)

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file. A name without an ending gets `.safetensors`."""
        self._model.save(_with_suffix(path))

    @classmethod
    def load(cls: type[Learner], path: str | Path, env: Any = None) -> Learner:
        """Reads a file of `save`, or the model of a run folder. Loading runs no code.

        Without `env` the model's own task is made on first use. Learning starts from the loaded
        networks and statistics, with empty Adam moments and a new schedule.
        """
        path = Path(path) if Path(path).exists() else _with_suffix(path)
        model = Model.load(find_model(path))
        cls._check_algo(model, path)
        learner = cls.__new__(cls)
        # The number of processes depends on the machine, not on the file.
        learner._begin(model.config.replace(workers=None), choose_source(model.config))
        learner._model, learner._last, learner._stale = model, before_first(model), True
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
        """Reopens a run of `learn(run_dir=…)` or `capo train` at its last checkpoint.

        `learn()` then ends as the uninterrupted run, bit for bit: it replays the last actions of
        the environments (the run's own task, or `env`). Without `replay` they begin new episodes.
        """
        found = reopen(Path(run_dir), None, False, Silent().warn)
        try:
            model = found.checkpoint.step.model
            cls._check_algo(model, Path(run_dir))
            learner = cls.__new__(cls)
            learner._begin(model.config, choose_source(model.config, env))
            learner._model, learner._last = model, found.checkpoint.step
            learner._resumed, learner._replay = found, replay
            made = learner._open()
            check_fit(model, made.observation_space, made.action_space, model.config.env_id)
        except BaseException:
            found.close()
            raise
        return learner

    def set_env(self, env: Any) -> None:
        """Replaces the environments by others with the same spaces."""
        source = env_source(env, self._config.backend)
        config = self._config.replace(env_id=source.name, **source.sized({}))
        made = source.make_for(config)
        check_fit(self._model, made.observation_space, made.action_space, source.name)
        if self._env is not None and self._source.fixed_num_envs is None:
            self._env.close()
        if self._last is not None:
            self._last = self._last._replace(number=self.num_timesteps // config.batch_size - 1)
        self._config, self._source, self._stale = config, source, True
        self._model = dataclasses.replace(self._model, config=config)
        self._env = encode_observations(made, config)


class PPO(Algorithm):
    """One expert, E epochs."""

    algo = "ppo"


class PPOKx(Algorithm):
    """One expert, K·E epochs."""

    algo = "ppo-kx"


class PPOSWA(Algorithm):
    """One expert; the mean of its end-of-epoch iterates."""

    algo = "ppo-swa"


class BestOfK(Algorithm):
    """K experts; the one with the highest surrogate."""

    algo = "best-of-k"


class TRPO(Algorithm):
    """One natural gradient step with a line search."""

    algo = "trpo"


class CAPOAvg(Algorithm):
    """K experts; the mean of their parameters."""

    algo = "capo-avg"


class CAPO(Algorithm):
    """K experts; their logarithmic opinion pool, distilled, within a KL trust region."""

    algo = "capo"


def _with_suffix(path: str | Path) -> Path:
    return Path(path).with_suffix(Path(path).suffix or ".safetensors")
