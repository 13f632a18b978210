"""All claims of the paper that our runs can check."""

from collections.abc import Sequence

from capo.paper.checks import Claim
from capo.paper.claims_on_returns import (
    main_claims,
    robustness_claims,
    small_effect_claims,
    time_claims,
    width_claims,
)
from capo.paper.claims_on_updates import (
    correlation_claims,
    depth_claims,
    theorem_claim,
    waste_claims,
)
from capo.paper.measures import CORRELATION, CORRELATION_LAST
from capo.paper.tasks import CHEETAH, HOPPER

CLAIMS: tuple[Claim, ...] = (
    *main_claims(),
    *depth_claims("depth", HOPPER, 2, "Section 2.2, Table 1"),
    *depth_claims("fisher-epochs", CHEETAH, 4, "Section 5.3, Figure 4"),
    *correlation_claims("in the last update", CORRELATION_LAST),
    *correlation_claims("over the run", CORRELATION),
    *waste_claims(),
    theorem_claim(),
    *time_claims("capo-avg"),
    *time_claims("capo"),
    *small_effect_claims("carry", "The carry", "Table 8"),
    *width_claims(),
    *robustness_claims("clip", "clip threshold", "Table 10"),
    *robustness_claims("target-kl", "target KL", "Table 11"),
    *small_effect_claims("warmup", "The warmup", "Table 12"),
)


def claims_of(names: Sequence[str]) -> dict[str, list[Claim]]:
    """The claims to show with each of some experiments, each claim once."""
    claims: dict[str, list[Claim]] = {name: [] for name in names}
    for claim in CLAIMS:
        place = next((name for name in claim.experiments if name in claims), None)
        if place is not None:
            claims[place].append(claim)
    return claims
