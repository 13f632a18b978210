"""What is left of a run for the tables and figures: a few kilobytes that can be kept for good."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors

from capo.config import Config, UsageError
from capo.files import parse_json, write_atomic
from capo.methods import RULES, method_of
from capo.records import Record, broken, number, read

POINTS = 100
"""Most points of a learning curve that are kept."""
TIMES = ("collect_seconds", "update_seconds", "diagnose_seconds")


class Summary(NamedTuple):
    """One finished run."""

    name: str
    config: dict[str, Any]
    evaluation: dict[str, Any]
    """Mean return, standard error and number of episodes."""
    curve: dict[str, list[float]]
    """`steps` and `return`, the mean of the last 100 episodes in training."""
    looks: list[dict[str, float]]
    """The updates that were split into signal and waste: ten evenly spaced, and the last."""
    totals: dict[str, float]
    """Of the whole run: frames, gradient_steps, parameters, seconds, and parts of these."""
    origin: dict[str, Any]
    """Versions, commit, cores and date."""

    @property
    def env_id(self) -> str:
        """The task."""
        return self.config["env_id"]

    @property
    def algo(self) -> str:
        """The method."""
        return self.config["algo"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self.config["seed"]

    @property
    def score(self) -> float:
        """The mean return of the evaluation."""
        return number(self.evaluation.get("mean"))

    def spaced(self, key: str) -> float:
        """The mean over the evenly spaced looks, those in the warmup left out."""
        found = [number(look.get(key)) for look in self.looks[:-1] if not look.get("warmup")]
        return sum(found) / len(found) if found else math.nan

    def last(self, key: str) -> float:
        """Of the run's last update, when the learning rate has all but come down to zero."""
        return number(self.looks[-1].get(key)) if self.looks else math.nan


def summarize(folder: Path, name: str) -> Summary:
    """The summary of a run folder that has an evaluation."""
    record = read(folder)
    if record.status != "finished" or not record.evaluation:
        raise UsageError(f"{folder} is not finished")
    steps, found = record.curve("return")
    every = max(1, math.ceil(len(steps) / POINTS))
    thin = sorted({*range(len(steps) - 1, -1, -every)})
    keys = ("steps", "warmup")
    return Summary(
        name,
        record.config,
        {
            "mean": record.score.value,
            "standard_error": record.score.error,
            "episodes": number(record.evaluation.get("episodes")),
        },
        {
            "steps": [float(steps[i]) for i in thin],
            "return": [_digits(found[i]) for i in thin],
        },
        [
            {
                key: _digits(value)
                for key, value in row.items()
                if key in keys or key.startswith(("fisher/", "consensus/"))
            }
            for row in record.rows
            if number(row.get("fisher/total")) >= 0
        ],
        _totals(record),
        _origin(record),
    )


def _digits(value: Any) -> float:
    """Enough digits for any table."""
    return float(f"{number(value):.6g}")


def _totals(record: Record) -> dict[str, float]:
    """Counted from the rows of the run, and from its model."""
    config, rows = Config.from_dict(record.config), record.rows
    found = {
        "frames": record.steps,
        "generations": len(rows),
        "gradient_steps": gradient_steps(rows, config),
        "parameters": _parameters(record.path / "model.safetensors"),
    }
    keys = ("wide_generations", "q_violations", "violations", "shortened_violations")
    found |= dict(zip(keys, broken(rows), strict=True))
    spent = {key: sum(number(row.get(key)) for row in rows) for key in TIMES}
    found |= {"seconds": sum(spent.values()), **spent}
    return {key: _digits(value) for key, value in found.items()}


def gradient_steps(rows: Sequence[dict[str, Any]], config: Config) -> float:
    """Σ over generations of experts · epochs · minibatches; one natural step each by TRPO."""
    method, total = method_of(config.algo), 0.0
    for row in rows:
        warm = bool(row.get("warmup"))
        natural = not warm and method.rule(config) is RULES["trpo"]
        steps = 1.0 if natural else number(row["epochs_run"]) * config.minibatches
        total += steps * (1 if warm else method.width(config))
    return total


def _parameters(file: Path) -> int:
    """Numbers in the policy that acts."""
    with safetensors.safe_open(file, "np") as model:
        names = [name for name in model.keys() if name.startswith("policy.")]  # noqa: SIM118
        return sum(math.prod(model.get_slice(name).get_shape()) for name in names)


def _origin(record: Record) -> dict[str, Any]:
    machine = record.manifest.get("machine", {})
    return {
        "versions": record.manifest.get("versions"),
        "commit": record.manifest.get("commit"),
        "cores": machine.get("cores"),
        "date": record.started.strftime("%Y-%m-%d") if record.started else None,
        "resumed": len(record.manifest.get("resumed", [])),
    }


def save(file: Path, summary: Summary) -> None:
    """Writes a summary, whole or not at all."""
    write_atomic(file, (json.dumps(_finite(summary._asdict())) + "\n").encode())


def load(file: Path) -> Summary:
    """Reads a summary; one that is not what `save` writes is an error that names the file."""
    try:
        found = parse_json(file.read_text("utf-8"))
        summary = Summary(**found)
        Config.from_dict(summary.config)
        assert math.isfinite(summary.score)
    except (OSError, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise UsageError(f"{file} is damaged; remove it, and its run is done again") from error
    return summary


def _finite(found: Any) -> Any:
    """The same with null for what is not finite, which JSON has no word for."""
    if isinstance(found, dict):
        return {key: _finite(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
