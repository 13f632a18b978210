"""Tasks of the paper."""

HOPPER, CHEETAH, WALKER, ANT = "Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"
HUMANOID, STANDUP = "Humanoid-v4", "HumanoidStandup-v4"
ENVS = (HOPPER, CHEETAH, WALKER, ANT, HUMANOID, STANDUP)
STEPS, HUMANOID_STEPS = 1_000_000, 4_000_000


def paper_steps(env_id: str) -> int:
    """Environment steps of a run of the paper on a task."""
    return HUMANOID_STEPS if env_id == HUMANOID else STEPS
