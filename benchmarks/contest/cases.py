"""Who is timed, and on what."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from capo.methods import METHODS

TASKS = ("HalfCheetah-v4", "Hopper-v4", "Ant-v4", "Humanoid-v4")
TASK = TASKS[0]
"""Where the scaling, the start and the memory are measured."""
ENVS, STEPS, MINIBATCHES = 8, 512, 32
"""The paper's sizes: batches of 4096, in minibatches of 128."""
SB3, SB3_SUBPROC = "SB3 PPO, DummyVecEnv", "SB3 PPO, SubprocVecEnv"
SBX, CONTRIB_TRPO = "SBX PPO, DummyVecEnv", "SB3-contrib TRPO, DummyVecEnv"
PHYSICS, PHYSICS_GYMNASIUM = "physics alone, EnvPool", "physics alone, Gymnasium"
ON_GYMNASIUM, AS_RUN = " on Gymnasium", " as `capo train` runs it"
WHOLE = ("ppo", "capo", "trpo")
"""The methods whose generation is taken apart, and timed with all that a run does besides."""
MERGED, WIDE = ("capo-avg", "capo"), 16
"""The methods that merge experts, and how many of these a target is set for."""
WIDTHS = (1, 2, 4, 8, 16, 32)
ENV_COUNTS = (8, 32, 128)
BATCHES = (4096, 16384, 65536)
HIDDEN = (64, 128, 256, 512)
SCALED = ("ppo", "capo-avg")
UPDATE = ("advantage", "experts", "aggregation", "distillation", "line search", "critic")
"""The parts that an update is taken apart into."""


class Contestant(NamedTuple):
    """A program to time: what it is called, which of `worker.KINDS` it is, the task, settings."""

    name: str
    kind: str
    env: str
    settings: dict[str, Any]


class Size(NamedTuple):
    """How long to measure."""

    tasks: Sequence[str] = TASKS
    least: int = 3
    """Rounds of a heat in any case; up to `most` as long as it has not taken `seconds`."""
    most: int = 5
    seconds: float = 80.0
    generations: int = 2
    """That a contestant does in a row when it is asked, after `warmup` of them at the start."""
    warmup: int = 2
    memory: tuple[int, int] = (10, 40)
    """Generations after which memory is looked at."""
    starts: int = 3
    rounds: int = 25
    """Of one generation each, where ours are compared with one another."""


class Heat(NamedTuple):
    """Contestants that are timed in turns, in one sitting."""

    name: str
    contestants: list[Contestant]


def ours(name: str, env: str, **settings: Any) -> Contestant:
    """One of capo's methods; its configuration is the default but for `settings`."""
    return Contestant(name, "ours", env, settings)


def peers(env: str, threads: int) -> list[Contestant]:
    """The programs of others, with as many threads for PyTorch as suit it best."""
    here = {"threads": threads}
    return [
        Contestant(SB3, "sb3", env, {**here, "subproc": False}),
        Contestant(SB3_SUBPROC, "sb3", env, {**here, "subproc": True}),
        Contestant(SBX, "sbx", env, here),
        Contestant(CONTRIB_TRPO, "trpo", env, here),
    ]


def threads(cores: int) -> Heat:
    """Stable-Baselines3's PPO with one thread for PyTorch, and with one for each core."""
    counts = sorted({1, cores})
    found = [Contestant(str(n), "sb3", TASK, {"threads": n, "subproc": False}) for n in counts]
    return Heat("threads", found)


def main(env: str, threads: int) -> Heat:
    """Everyone on one task."""
    return Heat(
        f"main-{env}",
        [
            Contestant(PHYSICS, "physics", env, {"backend": "envpool"}),
            Contestant(PHYSICS_GYMNASIUM, "physics", env, {"backend": "gymnasium"}),
            *peers(env, threads),
            *(ours(algo, env, algo=algo) for algo in METHODS),
            *(
                ours(algo + ON_GYMNASIUM, env, algo=algo, backend="gymnasium")
                for algo in ("ppo", "capo")
            ),
            *(Contestant(algo + AS_RUN, "run", env, {"algo": algo}) for algo in WHOLE),
        ],
    )


def close(env: str) -> Heat:
    """Ours beside one another and beside the physics: few contestants, so that many rounds fit."""
    found = [Contestant(PHYSICS, "physics", env, {"backend": "envpool"})]
    found += [ours(algo, env, algo=algo) for algo in ("ppo", *MERGED)]
    if env == TASK:
        found += [ours(f"{algo} {WIDE}", env, algo=algo, experts=WIDE) for algo in MERGED]
    return Heat(f"close-{env}", found)


def split(env: str) -> Heat:
    """Where a generation goes."""
    found = [Contestant(algo, "split", env, {"algo": algo}) for algo in WHOLE]
    return Heat(f"split-{env}", found)


def memory(threads: int) -> Heat:
    """Whose memory is looked at; one after the other."""
    found = [
        ours("ppo", TASK, algo="ppo"),
        ours("capo K = 4", TASK, algo="capo"),
        ours("capo K = 32", TASK, algo="capo", experts=32),
        *(one for one in peers(TASK, threads) if one.name in (SB3, SBX)),
    ]
    return Heat("memory", found)


def width() -> Heat:
    """More experts."""
    wide = [ours(f"{a} {k}", TASK, algo=a, experts=k) for k in WIDTHS for a in ("capo-avg", "capo")]
    return Heat("width", [ours("ppo", TASK, algo="ppo"), *wide])


def envs() -> Heat:
    """More environments with fewer steps each: batches of 4096 all the same."""
    sizes = [(n, {"num_envs": n, "num_steps": ENVS * STEPS // n}) for n in ENV_COUNTS]
    return _scaled("envs", sizes)


def batch() -> Heat:
    """More steps of the 8 environments, in 32 minibatches all the same."""
    return _scaled("batch", [(n, {"num_steps": n // ENVS}) for n in BATCHES])


def hidden() -> Heat:
    """Wider networks."""
    return _scaled("hidden", [(n, {"hidden": (n, n)}) for n in HIDDEN])


def _scaled(name: str, sizes: list[tuple[int, dict[str, Any]]]) -> Heat:
    found = [ours(f"{a} {n}", TASK, algo=a, **more) for n, more in sizes for a in SCALED]
    return Heat(name, found)
