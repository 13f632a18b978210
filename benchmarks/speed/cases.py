"""The timed programs, with their tasks and sizes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from capo.methods import METHODS

TASKS = ("HalfCheetah-v4", "Hopper-v4", "Ant-v4", "Humanoid-v4")
TASK = TASKS[0]
"""The task on which scaling, startup and memory are measured."""
ENVS, STEPS, MINIBATCHES = 8, 512, 32
"""The paper's sizes: batches of 4096, in minibatches of 128."""
SB3, SB3_SUBPROC = "SB3 PPO, DummyVecEnv", "SB3 PPO, SubprocVecEnv"
SBX, CONTRIB_TRPO = "SBX PPO, DummyVecEnv", "SB3-contrib TRPO, DummyVecEnv"
PHYSICS, PHYSICS_GYMNASIUM = "physics alone, EnvPool", "physics alone, Gymnasium"
ON_GYMNASIUM, AS_RUN = " on Gymnasium", " as `capo train` runs it"
DETAILED = ("ppo", "capo", "trpo")
"""Methods whose generation is broken down into parts, and timed as `capo train` runs it."""
CONSENSUS, MANY_EXPERTS = ("capo-avg", "capo"), 16
"""Methods that merge experts, and the number of experts for which there is a target."""
ON_BATCHES = " on batches of 1024"
"""Our defaults: `ppo`, and experts on the last eight batches."""
WIDTHS = (1, 2, 4, 8, 16, 32)
ENV_COUNTS = (8, 32, 128)
BATCHES = (4096, 16384, 65536)
HIDDEN = (64, 128, 256, 512)
SCALED_ALGOS = ("ppo", "capo-avg")
UPDATE = ("advantage", "experts", "aggregation", "distillation", "line search", "critic")
"""The parts of an update."""


class Program(NamedTuple):
    """A program to time: its name, its kind (a key of `worker.KINDS`), the task, the settings."""

    name: str
    kind: str
    env: str
    settings: dict[str, Any]


class Effort(NamedTuple):
    """How long to measure."""

    tasks: Sequence[str] = TASKS
    min_rounds: int = 3
    """Rounds of a comparison; up to `max_rounds` while it has taken less than `seconds`."""
    max_rounds: int = 5
    seconds: float = 80.0
    generations: int = 2
    """Generations of one program in a round."""
    warmup: int = 2
    """Generations before the first round, which do not count."""
    memory: tuple[int, int] = (10, 40)
    """Generations after which memory is measured."""
    startup_rounds: int = 3
    paired_rounds: int = 25
    """Rounds of one generation each, in comparisons of capo's own methods."""


class Comparison(NamedTuple):
    """Programs that are timed in turns, in one session."""

    name: str
    programs: list[Program]


def ours(name: str, env: str, **settings: Any) -> Program:
    """A method of capo with the default configuration, changed by `settings`."""
    return Program(name, "ours", env, settings)


def peers(env: str, threads: int) -> list[Program]:
    """Other libraries, with this number of PyTorch threads."""
    here = {"threads": threads}
    return [
        Program(SB3, "sb3", env, {**here, "subproc": False}),
        Program(SB3_SUBPROC, "sb3", env, {**here, "subproc": True}),
        Program(SBX, "sbx", env, here),
        Program(CONTRIB_TRPO, "trpo", env, here),
    ]


def threads(cores: int) -> Comparison:
    """Stable-Baselines3's PPO with one PyTorch thread, and with one for each core."""
    counts = sorted({1, cores})
    found = [Program(str(n), "sb3", TASK, {"threads": n, "subproc": False}) for n in counts]
    return Comparison("threads", found)


def main(env: str, threads: int) -> Comparison:
    """All programs on one task."""
    return Comparison(
        f"main-{env}",
        [
            Program(PHYSICS, "physics", env, {"backend": "envpool"}),
            Program(PHYSICS_GYMNASIUM, "physics", env, {"backend": "gymnasium"}),
            *peers(env, threads),
            *(ours(algo, env, algo=algo) for algo in METHODS),
            *(
                ours(algo + ON_GYMNASIUM, env, algo=algo, backend="gymnasium")
                for algo in ("ppo", "capo")
            ),
            *(Program(algo + AS_RUN, "run", env, {"algo": algo}) for algo in DETAILED),
        ],
    )


def paired(env: str) -> Comparison:
    """Capo's methods and the physics alone: few programs, so that there is time for many rounds."""
    found = [Program(PHYSICS, "physics", env, {"backend": "envpool"})]
    found += [ours(algo, env, algo=algo) for algo in ("ppo", *CONSENSUS)]
    defaults = {"preset": "default", "num_steps": 128}
    found += [ours(algo + ON_BATCHES, env, algo=algo, **defaults) for algo in ("ppo", *CONSENSUS)]
    if env == TASK:
        many = {"experts": MANY_EXPERTS}
        found += [ours(f"{algo} {MANY_EXPERTS}", env, algo=algo, **many) for algo in CONSENSUS]
    return Comparison(f"paired-{env}", found)


def breakdown(env: str) -> Comparison:
    """The parts of a generation, for three methods."""
    found = [Program(algo, "breakdown", env, {"algo": algo}) for algo in DETAILED]
    return Comparison(f"breakdown-{env}", found)


def memory(threads: int) -> Comparison:
    """Programs whose memory is measured, one after the other."""
    found = [
        ours("ppo", TASK, algo="ppo"),
        ours("capo K = 4", TASK, algo="capo"),
        ours("capo K = 32", TASK, algo="capo", experts=32),
        *(one for one in peers(TASK, threads) if one.name in (SB3, SBX)),
    ]
    return Comparison("memory", found)


def width() -> Comparison:
    """More experts, and plain PPO for reference."""
    wide = [ours(f"{a} {k}", TASK, algo=a, experts=k) for k in WIDTHS for a in ("capo-avg", "capo")]
    return Comparison("width", [ours("ppo", TASK, algo="ppo"), *wide])


def envs() -> Comparison:
    """More environments with fewer steps each: the batch stays at 4096."""
    sizes = [(n, {"num_envs": n, "num_steps": ENVS * STEPS // n}) for n in ENV_COUNTS]
    return _scaled("envs", sizes)


def batch() -> Comparison:
    """More steps of the 8 environments, still in 32 minibatches."""
    return _scaled("batch", [(n, {"num_steps": n // ENVS}) for n in BATCHES])


def hidden() -> Comparison:
    """Wider networks."""
    return _scaled("hidden", [(n, {"hidden": (n, n)}) for n in HIDDEN])


def _scaled(name: str, sizes: list[tuple[int, dict[str, Any]]]) -> Comparison:
    found = [ours(f"{a} {n}", TASK, algo=a, **more) for n, more in sizes for a in SCALED_ALGOS]
    return Comparison(name, found)
