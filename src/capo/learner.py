"""A learner: a configuration, its environments, and the last generation of their training."""

from collections.abc import Iterator

from capo.envs.adapters import EnvSource, encode_observations, with_timeout
from capo.envs.base import VectorEnv
from capo.evaluation import Evaluation, evaluate
from capo.methods import Settled, settle
from capo.model import check_fit
from capo.state import Generation, first_generation
from capo.storage.compiled import prepare_jax
from capo.train import generations


class Learner:
    """What is trained further; the classes of `capo` hold one, and a `Session` trains it.

    Environments and networks are made on first use. `last` continues from a generation instead.
    """

    def __init__(self, config: Settled, source: EnvSource, last: Generation | None = None):
        prepare_jax()
        self.config, self.source = config, source
        self._last, self._env = last, None
        self._in_place = False

    @property
    def env(self) -> VectorEnv:
        """The training environments, which encode their observations for the network."""
        if self._env is None:
            self._env = self._made(self.config, self.source)
            self.config = settle(self.config, self._env.observation_space)
        return self._env

    def _made(self, config: Settled, source: EnvSource) -> VectorEnv:
        """New environments, refused if they do not fit the networks."""
        made = source.make_for(config)
        try:
            if self._last is not None:
                spaces = made.observation_space, made.action_space
                check_fit(self._last.model, *spaces, source.name)
            return encode_observations(made, settle(config, made.observation_space))
        except BaseException:
            if source.fixed_num_envs is None:
                made.close()
            raise

    @property
    def last(self) -> Generation:
        """The last whole generation; −1 before the first."""
        if self._last is None:
            env = self.env
            self._last = first_generation(self.config, env.observation_space, env.action_space)
        return self._last

    @property
    def num_timesteps(self) -> int:
        """Environment steps learned from so far."""
        return (self.last.number + 1) * self.config.batch_size

    def generations(
        self, env_timeout: float | None = None, end_process: bool = False
    ) -> Iterator[Generation]:
        """Trains to the end of the configuration and yields after every generation.

        After an error within a generation the environments begin new episodes.
        """
        start = self.last if self._in_place else self.last.without_episodes()
        self._in_place = False
        for step in generations(self.config, self.env, start, env_timeout, end_process):
            self._last, self._in_place = step, True
            yield step
            self._in_place = False
        self._in_place = True

    def continue_from(self, step: Generation) -> None:
        """Goes on from a generation whose episodes, if it has any, the environments are in."""
        self._last, self._in_place = step, True

    def evaluate(
        self,
        episodes: int,
        seed: int | None = None,
        deterministic: bool = True,
        env_timeout: float | None = None,
        end_process: bool = False,
    ) -> Evaluation:
        """Plays whole episodes with frozen statistics, in new environments where it can make them.

        In environments that were given to it, training begins new episodes afterwards.
        """
        source = with_timeout(self.source, env_timeout, end_process)
        if source.fixed_num_envs is not None:
            self._in_place = False
        return evaluate(self.last.model, episodes, seed, deterministic, source)

    def set_env(self, source: EnvSource) -> None:
        """Replaces the environments by others with the same spaces, which begin new episodes."""
        sizes = source.sized({}, self.config.batch_size)
        config = self.config.replace(env_id=source.name, **sizes, **source.dressing._asdict())
        made, done = self._made(config, source), self.num_timesteps
        self.close()
        step = self.last.moved(config, done // config.batch_size - 1)
        self.config, self.source = config, source
        self._env, self._last, self._in_place = made, step, False

    def close(self) -> None:
        """Closes the environments, unless they were given to it."""
        if self._env is not None and self.source.fixed_num_envs is None:
            self._env.close()
        self._env = None
