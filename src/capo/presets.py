"""Presets: values of settings that depend on the preset and on the method."""

from typing import Any

SHUFFLES: dict[str, Any] = {
    "experts": 4,
    "num_steps": 512,
    "minibatches": 32,
    "warmup": 0.1,
    "diversity": "shuffle",
    "deviation": "all",
    "action_noise": 0.0,
}
"""Experts that shuffle one batch of 4096 samples, after a warmup: the sizes of the paper."""
SMALL_BATCH: dict[str, Any] = {**SHUFFLES, "num_steps": 128, "minibatches": 8}
"""One expert on a batch of 1024."""
BATCHES: dict[str, Any] = {
    "experts": 8,
    "num_steps": 128,
    "minibatches": 8,
    "warmup": 0.0,
    "diversity": "batches",
    "deviation": "newest",
    "action_noise": 0.5,
}
"""Experts on the last eight batches of 1024, with exploration noise that is correlated in time."""
ACCURATE = {"truncation": "bootstrap", "distill_init": "average"}
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {
        "": {**SMALL_BATCH, **ACCURATE},
        "capo": {**BATCHES, **ACCURATE},
        "capo-avg": {**BATCHES, **ACCURATE},
        "trpo": {**SHUFFLES, **ACCURATE},
    },
    "corrected": {"": {**SHUFFLES, **ACCURATE}},
    "paper": {"": {**SHUFFLES, "truncation": "terminate", "distill_init": "incumbent"}},
}
"""Values by preset and method; the empty name stands for the methods that are not listed."""


def preset_values(preset: str, algo: str) -> dict[str, Any]:
    """The values of a preset for a method; an unknown preset is read as the default."""
    rows = PRESETS.get(preset, PRESETS["default"])
    return rows.get(algo.replace("_", "-"), rows[""])
