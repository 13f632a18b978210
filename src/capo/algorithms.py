"""The methods as classes with the API of Stable-Baselines3: learn, predict, save, load."""

import contextlib
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Unpack

import gymnasium as gym
import numpy as np

from capo import zoo
from capo.aliases import BATCH_SIZE, translated, without_batch_size
from capo.callbacks import Callback, give_environments
from capo.config import Config
from capo.core.networks import Policy
from capo.core.settings import NetworkSettings
from capo.envs.adapters import choose_source, env_source
from capo.envs.base import VectorEnv
from capo.errors import UsageError
from capo.evaluation import Evaluation, evaluate
from capo.fields import check_names
from capo.given import dressing_given, keyword_signature, network_name, with_presets
from capo.keywords import Keywords
from capo.learner import Learner
from capo.methods import Settled, settle
from capo.model import Model
from capo.runs.folder import read_model
from capo.runs.options import Options
from capo.runs.progress import Terminal
from capo.runs.reporter import Silent
from capo.runs.resume import Resumed, reopen
from capo.runs.session import Session
from capo.runs.tracking import Service
from capo.state import loaded_generation

NETWORK = tuple(
    field.name
    for field in dataclasses.fields(NetworkSettings)
    if field.name not in ("initial_std", "normalize_obs")
)
"""Settings that a trained network fixes."""
KEPT = (
    *(field.name for field in dataclasses.fields(NetworkSettings)),
    *("env_id", "env_kwargs", "wrappers", "backend", "seed", "gamma", "normalize_reward"),
)
"""Settings that another method takes over from a model."""
Kind = TypeVar("Kind", bound="Algorithm")


class Algorithm:
    """A learner: a policy, its environments, and the state of its training.

    `policy` is "MlpPolicy" or "CnnPolicy" (or "auto": by the observations), or a network of your
    own, or a pair of one for the policy and one for the value (`capo.register_network`). `env` is
    an id, a Gymnasium Env, a function that makes one, a Gymnasium VectorEnv or an EnvPool; with a
    single Env, its `num_steps` are those of eight. `keywords` are fields of `capo.Config`; what is
    left out has the value of the zoo for this task, or else the default (`preset`). Names of
    Stable-Baselines3 that mean the same are taken, with a warning.
    """

    __signature__: ClassVar[inspect.Signature] = keyword_signature()
    algo: ClassVar[str]
    """Name of the method."""

    def __init__(
        self, policy: Any, env: Any, *, seed: int = Config.seed, **keywords: Unpack[Keywords]
    ):
        network: Any = network_name(policy)
        fields = translated(dict(keywords))
        check_names(Config, (name for name in fields if name != BATCH_SIZE))
        source = env_source(env, fields.get("backend", Config.backend), dressing_given(fields))
        fields = with_presets(fields, source, self.algo) | source.dressing._asdict()
        if fields.get("workers") and not isinstance(env, str):
            raise UsageError("workers can step only what they can make, so env must be an id")
        config = Config(source.name, algo=self.algo, seed=seed, network=network, **fields)
        self._hold(Learner(settle(config), source))

    def _hold(self, learner: Learner, resumed: Resumed | None = None, replay: bool = True) -> None:
        self._learner, self._resumed, self._replay = learner, resumed, replay
        self._rng = np.random.default_rng(learner.config.seed)
        self._learner.last  # noqa: B018 (makes the networks, if there are none yet)

    @classmethod
    def _holding(cls: type[Kind], *held: Any) -> Kind:
        algorithm = cls.__new__(cls)
        algorithm._hold(*held)
        return algorithm

    def __repr__(self) -> str:
        done = f"{self.num_timesteps} steps learned"
        return f"{type(self).__name__}({self.config.env_id!r}, seed={self.config.seed}, {done})"

    @property
    def config(self) -> Settled:
        """The configuration, with each `auto` settled."""
        return self._learner.config

    @property
    def model(self) -> Model:
        """The part that is saved: networks, statistics, spaces and configuration."""
        return self._learner.last.model

    @property
    def policy(self) -> Policy:
        """The policy network, an Equinox module with NumPy leaves."""
        return self.model.policy

    @property
    def observation_space(self) -> gym.Space:
        """Observation space of one environment."""
        return self.model.observation_space

    @property
    def action_space(self) -> gym.Space:
        """Action space of one environment."""
        return self.model.action_space

    def get_env(self) -> VectorEnv:
        """The training environments."""
        return self._learner.env

    def predict_values(self, observation: Any) -> np.ndarray:
        """V(s) of one observation or a batch, of the normalised rewards if these are on."""
        return self.model.predict_values(observation)

    @property
    def num_timesteps(self) -> int:
        """Environment steps learned from so far."""
        return self._learner.num_timesteps

    def learn(
        self: Kind,
        total_timesteps: float | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress_bar: bool = True,
        run_dir: str | Path | None = None,
        checkpoint_every: int | None = Options.checkpoint_every,
        env_timeout: float | None = Options.env_timeout,
        eval_every: int | None = Options.eval_every,
        eval_episodes: int = Options.eval_episodes,
        stop_at: float | None = Options.stop_at,
        track: Service | None = Options.track,
        track_project: str = Options.track_project,
    ) -> Kind:
        """Learns from `total_timesteps` more steps, in whole batches.

        A second call continues where the first ended; the learning rate then falls to 0 over all
        steps asked for so far. A resumed run needs no arguments: it takes the steps that are left,
        in its own folder. Callbacks see every generation (`capo.callbacks`). An error or
        interruption leaves the learner as it was after the last whole generation.

        `run_dir` records the run as `capo train` does: a folder with a checkpoint each
        `checkpoint_every` generations (None: about 20 times) to `resume` from, metrics also sent
        to `track` ("wandb" or "trackio"), and an evaluation of `eval_episodes` at the end. With
        `eval_every` the policy is evaluated about every so many steps, and the best one kept there.
        `stop_at` ends the run at this return. A step or reset of the environments that takes more
        than `env_timeout` seconds is an `EnvError`.
        """
        config = self._asked(total_timesteps)
        callbacks = [callback] if callable(callback) else list(callback or ())
        give_environments(callbacks, self._learner.source, env_timeout)
        options = Options(
            checkpoint_every=checkpoint_every,
            env_timeout=env_timeout,
            eval_every=eval_every,
            eval_episodes=eval_episodes,
            stop_at=stop_at,
            track=track,
            track_project=track_project,
        )
        session = Session(
            self._learner,
            None if run_dir is None else Path(run_dir),
            options,
            Terminal(messages=False) if progress_bar else Silent(),
            self._resumed,
            replay=self._replay,
        )
        self._learner.config, self._resumed = config, None
        session.run(callbacks)
        return self

    def _asked(self, total_timesteps: float | None) -> Settled:
        """The configuration with the steps asked for added to those done."""
        if total_timesteps is None:
            if self._resumed is None:
                raise UsageError("learn(total_timesteps): how many steps is it to learn from?")
            return self.config
        if isinstance(total_timesteps, float) and total_timesteps.is_integer():
            total_timesteps = int(total_timesteps)
        # Checks these steps alone: together with those done they would always fill a batch.
        self.config.replace(total_steps=total_timesteps)
        return self.config.replace(total_steps=self.num_timesteps + total_timesteps)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch, and the state to pass to the next call."""
        return self.model.predict(observation, state, episode_start, deterministic, self._rng)

    def evaluate(
        self,
        episodes: int = 20,
        deterministic: bool = True,
        seed: int | None = None,
        env: Any = None,
    ) -> Evaluation:
        """Plays whole episodes with frozen statistics, in new environments where possible."""
        if env is None:
            return self._learner.evaluate(episodes, seed, deterministic)
        return evaluate(self.model, episodes, seed, deterministic, env)

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file. A name without an ending gets `.safetensors`."""
        self.model.save(_with_suffix(path))

    @classmethod
    def load(
        cls: type[Kind],
        path: str | Path,
        env: Any = None,
        policy: Any = None,
        **keywords: Unpack[Keywords],
    ) -> Kind:
        """Reads a file of `save`, or the model of a run folder or checkpoint. Loading runs no code.

        Without `env` the model's own task is made on first use. Learning starts from the loaded
        networks and statistics, with empty Adam moments and a new schedule. Keywords replace
        settings of the model, except those of its networks. A model with networks of your own needs
        them again, as `policy`.
        """
        if policy is not None:
            network_name(policy)
        path = Path(path) if Path(path).exists() else _with_suffix(path)
        model = read_model(path)
        cls._check_algo(model, path)
        if "preset" in keywords:
            raise UsageError(f"preset decides other settings; use {cls.__name__}.from_model(model)")
        return cls._from(model, model.config, env, translated(dict(keywords)))

    @classmethod
    def from_model(
        cls: type[Kind], model: Model, env: Any = None, **keywords: Unpack[Keywords]
    ) -> Kind:
        """Goes on with this method from a model of any method: its networks and statistics.

        Its task, networks and discount factor stay; other settings are those of this class, unless
        keywords give them.
        """
        fields = translated(dict(keywords))
        old, preset = model.config.to_dict(), fields.pop("preset", "auto")
        row = zoo.row(old["env_id"], cls.algo, preset)
        kept = {name: old[name] for name in KEPT}
        config = Config(algo=cls.algo, **{"preset": preset, **row, **kept})
        return cls._from(model, config, env, fields)

    @classmethod
    def _from(
        cls: type[Kind], model: Model, config: Config, env: Any, fields: dict[str, Any]
    ) -> Kind:
        """A learner that begins with the networks of a model; `fields` replace settings."""
        sizes = {**config.to_dict(), **fields}
        fields = without_batch_size(fields, sizes["num_envs"] * sizes["num_steps"])
        check_names(Config, fields)
        dressing = dressing_given(fields)._asdict()
        fields |= {name: value for name, value in dressing.items() if name in fields}
        # The number of processes depends on the machine, not on the file.
        config = settle(config.replace(**{"workers": None, **fields}), model.observation_space)
        for name in NETWORK:
            if name in fields and getattr(config, name) != getattr(model.config, name):
                raise UsageError(f"{name} cannot change: the model's networks have theirs")
        model = dataclasses.replace(model, config=config.plain())
        learner = Learner(config, choose_source(config), loaded_generation(model, config))
        if env is not None:
            learner.set_env(env_source(env, config.backend))
        return cls._holding(learner)

    @classmethod
    def _check_algo(cls, model: Model, path: Path) -> None:
        if model.config.algo != cls.algo:
            kinds = (kind for kind in Algorithm.__subclasses__() if kind.algo == model.config.algo)
            right = next((kind.__name__ for kind in kinds), "Model")
            raise UsageError(f"{path} is a {model.config.algo} model; load it with {right}.load")

    @classmethod
    def resume(cls: type[Kind], run_dir: str | Path, env: Any = None, replay: bool = True) -> Kind:
        """Reopens a run of `learn(run_dir=…)` or `capo train` at its last checkpoint.

        `learn()` then ends as the uninterrupted run, bit for bit: it replays the last actions of
        the environments (the run's own task, or `env`). Without `replay` they begin new episodes.
        """
        with contextlib.ExitStack() as held:
            resumed = reopen(Path(run_dir), None, False, Silent().warn)
            held.enter_context(resumed.lock)
            step = resumed.checkpoint.step
            cls._check_algo(step.model, Path(run_dir))
            config = settle(step.model.config, step.model.observation_space)
            learner = Learner(config, choose_source(config, env), step)
            learner.env  # noqa: B018 (an environment that does not fit is refused here)
            held.pop_all()
        return cls._holding(learner, resumed, replay)

    def set_env(self, env: Any) -> None:
        """Replaces the environments by others with the same spaces."""
        self._learner.set_env(env_source(env, self.config.backend))


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
