"""Messages of a session."""

from collections.abc import Mapping, Sequence
from typing import Any

from capo.envs.base import VectorEnv
from capo.methods import Settled
from capo.runs.reading import count_violations
from capo.storage.provenance import versions


def headline(config: Settled, env: VectorEnv) -> str:
    """Versions, spaces and sizes of a run, in one line."""
    found = " ".join(f"{name} {version}" for name, version in versions().items() if version)
    sizes = f"K={config.method.width(config)} E={config.method.depth(config)}"
    batch = f"{config.num_envs}×{config.num_steps} samples × {config.generations} generations"
    seen, done = (space.shape or space for space in (env.observation_space, env.action_space))
    spaces = f"obs {seen}, act {done}"
    workers = getattr(env, "workers", 0)
    where = env.backend + (f" in {workers + 1} processes" if workers else "")
    return f"{found} | {config.env_id} on {where}, {spaces} | {config.algo} {sizes}, {batch}"


def theorem(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often Theorem 1 was violated; empty for a run without several experts."""
    found = count_violations(rows)
    if not found.generations:
        return ""
    shortened = f", {found.shortened} of them by a step that the line search shortened"
    return (
        f"Theorem 1 in {found.generations} generations with several experts: the pool broke it "
        f"{found.pool} times, the network {found.network} times{shortened * (found.shortened > 0)}"
    )
