"""Summaries of finished runs: a few kilobytes with all numbers for the tables and figures."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors

from capo.config import Config
from capo.errors import UsageError
from capo.methods import RULES, method_of
from capo.runs.reading import SavedRun, count_violations, number, read
from capo.storage.files import parse_json, write_atomic
from capo.sweeps.keys import run_key

POINTS = 100
"""Most points of a learning curve in a summary."""
DIAGNOSTICS_KEY = "looks"
"""Name of the field `diagnostics` in the file."""
TIMES = ("collect_seconds", "update_seconds", "diagnose_seconds")


class Summary(NamedTuple):
    """One finished run."""

    name: str
    config: dict[str, Any]
    evaluation: dict[str, Any]
    """Mean return, standard error and number of episodes."""
    curve: dict[str, list[float]]
    """`steps` and `return`, the mean of the last 100 training episodes."""
    diagnostics: list[dict[str, float]]
    """Signal, waste and agreement of some updates: ten evenly spaced ones, and the last."""
    totals: dict[str, float]
    """Totals of the run: frames, gradient_steps, parameters, seconds, and parts of these."""
    origin: dict[str, Any]
    """Versions, commit, cores and date of the run."""

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

    @property
    def learning(self) -> tuple[np.ndarray, np.ndarray]:
        """The steps and training returns of the curve, without missing values."""
        steps, values = (np.array(self.curve.get(key, []), float) for key in ("steps", "return"))
        good = np.isfinite(steps) & np.isfinite(values)
        return steps[good], values[good]

    @property
    def mean_second_half(self) -> float:
        """Mean of the training return over the second half of the steps."""
        steps, returns = self.curve["steps"], self.curve["return"]
        late = [
            y for x, y in zip(steps, returns, strict=True) if x > self.config["total_steps"] / 2
        ]
        return sum(late) / len(late) if late else math.nan

    def mean_over_run(self, key: str) -> float:
        """Mean of a diagnostic over the evenly spaced updates after the warmup."""
        values = [number(row.get(key)) for row in self.diagnostics[:-1] if not row.get("warmup")]
        return sum(values) / len(values) if values else math.nan

    def in_last_update(self, key: str) -> float:
        """A diagnostic of the last update, where the learning rate is almost zero."""
        return number(self.diagnostics[-1].get(key)) if self.diagnostics else math.nan


def summarize(folder: Path, name: str) -> Summary:
    """The summary of a run folder; the run must be finished and evaluated."""
    record = read(folder)
    if record.status != "finished" or not record.evaluation:
        raise UsageError(f"{folder} is not finished")
    steps, returns = record.curve("return")
    every = max(1, math.ceil(len(steps) / POINTS))
    thin = sorted({*range(len(steps) - 1, -1, -every)})
    keys = ("steps", "warmup")
    return Summary(
        name=name,
        config=record.config,
        evaluation={
            "mean": record.score.value,
            "standard_error": record.score.error,
            "episodes": number(record.evaluation.get("episodes")),
        },
        curve={
            "steps": [float(steps[i]) for i in thin],
            "return": [_digits(returns[i]) for i in thin],
        },
        diagnostics=[
            {
                key: _digits(value)
                for key, value in row.items()
                if key in keys or key.startswith(("fisher/", "consensus/"))
            }
            for row in record.rows
            if number(row.get("fisher/total")) >= 0
        ],
        totals=_totals(record),
        origin=_origin(record),
    )


def _digits(value: Any) -> float:
    """Rounded to six digits, enough for any table."""
    return float(f"{number(value):.6g}")


def _totals(record: SavedRun) -> dict[str, float]:
    """Totals from the metrics of a run and from its model."""
    config, rows = Config.from_dict(record.config), record.rows
    totals = {
        "frames": record.steps,
        "generations": len(rows),
        "gradient_steps": gradient_steps(rows, config),
        "parameters": _parameters(record.path / "model.safetensors"),
    }
    keys = ("wide_generations", "q_violations", "violations", "shortened_violations")
    totals |= dict(zip(keys, count_violations(rows), strict=True))
    spent = {key: sum(number(row.get(key)) for row in rows) for key in TIMES}
    totals |= {"seconds": sum(spent.values()), **spent}
    return {key: _digits(value) for key, value in totals.items()}


def gradient_steps(rows: Sequence[dict[str, Any]], config: Config) -> float:
    """Σ experts · epochs · minibatches over the generations; experts of TRPO take one step."""
    method, total = method_of(config.algo), 0.0
    for row in rows:
        warm = bool(row.get("warmup"))
        natural = not warm and method.rule(config) is RULES["trpo"]
        steps = 1.0 if natural else number(row["epochs_run"]) * config.minibatches
        total += steps * (1 if warm else method.width(config))
    return total


def _parameters(file: Path) -> int:
    """Number of parameters of the policy."""
    with safetensors.safe_open(file, "np") as model:
        names = [name for name in model.keys() if name.startswith("policy.")]  # noqa: SIM118
        return sum(math.prod(model.get_slice(name).get_shape()) for name in names)


def _origin(record: SavedRun) -> dict[str, Any]:
    machine = record.manifest.get("machine", {})
    return {
        "versions": record.manifest.get("versions"),
        "commit": record.manifest.get("commit"),
        "cores": machine.get("cores"),
        "date": record.started.strftime("%Y-%m-%d") if record.started else None,
        "resumed": len(record.manifest.get("resumed", [])),
    }


def save_summary(file: Path, summary: Summary) -> None:
    """Writes a summary atomically."""
    fields = {DIAGNOSTICS_KEY if k == "diagnostics" else k: v for k, v in summary._asdict().items()}
    write_atomic(file, (json.dumps(_finite(fields)) + "\n").encode())


def load_summary(file: Path) -> Summary:
    """Reads a summary; a file that `save_summary` cannot have written is an error."""
    try:
        fields = parse_json(file.read_text("utf-8"))
        summary = Summary(diagnostics=fields.pop(DIAGNOSTICS_KEY), **fields)
        run_key(Config.from_dict(summary.config))
        assert math.isfinite(summary.score)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise UsageError(f"{file} is damaged; remove it to train its run again") from error
    return summary


def _finite(content: Any) -> Any:
    """The value with None instead of numbers that are not finite, which JSON cannot express."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
