"""Messages of a session."""

from collections.abc import Mapping, Sequence
from typing import Any

from capo import zoo
from capo.envs.base import VectorEnv
from capo.errors import name_of
from capo.methods import Settled
from capo.runs.reading import count_violations
from capo.storage.provenance import versions


def headline(config: Settled, env: VectorEnv) -> str:
    """Versions, spaces and sizes of a run, in one line."""
    here = " ".join(f"{name} {version}" for name, version in versions().items() if version)
    sizes = f"K={config.method.width(config)} E={config.method.depth(config)}"
    batch = f"{config.num_envs}×{config.num_steps} samples × {config.num_generations} generations"
    observation, action = env.observation_space, env.action_space
    spaces = f"obs {observation.shape or observation}, act {action.shape or action}"
    workers = getattr(env, "workers", 0)
    where = env.backend + (f" in {workers + 1} processes" if workers else "")
    line = f"{here} | {config.env_id} on {where}, {spaces} | {config.algo} {sizes}, {batch}"
    if zoo.row(config.env_id, config.algo, config.preset):
        line += f" | settings of the zoo; without them: {name_of('preset', 'default')}"
    return line


def theorem_note(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often Theorem 1 was violated; empty for a run without several experts."""
    counted = count_violations(rows)
    if not counted.generations:
        return ""
    shortened = f", {counted.shortened} of them by a step that the line search shortened"
    return (
        f"Theorem 1 in {counted.generations} generations with several experts: the pool broke it "
        f"{counted.pool} times, the network {counted.network} times"
        f"{shortened if counted.shortened else ''}"
    )
