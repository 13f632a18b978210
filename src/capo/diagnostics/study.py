"""The study of `capo diagnose`: signal and waste of an update by depth, width and damping."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from capo.core.fisher import Geometry
from capo.core.natural_gradient import DAMPING, natural_gradient
from capo.diagnostics.online import agreement, predicted_ratio
from capo.diagnostics.trials import Trial
from capo.errors import UsageError, name_of
from capo.statistics import standard_error

DAMPINGS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Dampings at which the alignment is measured, as shares of F's largest eigenvalue."""
TOLERANCE, ITERATIONS = 1e-6, 200
"""Tighter than during a run: a study has more time."""


def study(trials: Iterable[Trial], depth: int, damping: float = DAMPING) -> dict[str, Any]:
    """All numbers of `capo diagnose`, ready for JSON.

    Width, geometry and damping are studied at one `depth`. Each number is a mean over batches, with
    its standard error where there are several.
    """
    views = [_View(trial, depth, damping) for trial in trials]
    first = views[0]
    return {
        "batches": len(views),
        "experts": first.experts,
        "depth": depth,
        "damping_share": damping,
        "damping": [view.geometry.natural.damping for view in views],
        "residual": [view.geometry.natural.residual for view in views],
        "iterations": [view.geometry.natural.iterations for view in views],
        "depths": [
            {"epochs": epochs, **_mean_and_error([view.at(epochs) for view in views])}
            for epochs in first.trial.after
        ],
        "widths": [
            {"experts": width, **_mean_and_error([view.width(width) for view in views])}
            for width in _widths(first.experts)
        ],
        "apart": _apart(views),
        "ladder": _damping_rows(views),
        "plane": first.plane(),
    }


class _View:
    """One trial and the Fisher geometry of its batch."""

    def __init__(self, trial: Trial, depth: int, damping: float):
        self.trial, self.depth = trial, depth
        before, data = trial.before, trial.data
        options = {"damping": damping, "tolerance": TOLERANCE, "iterations": ITERATIONS}
        self.geometry = Geometry(trial.family, before, data, trial.apply, **options)
        self.experts = len(trial.after[depth])
        self._projected: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def updates(self, epochs: int) -> Float[np.ndarray, "k p"]:
        """The updates Δ_k at a depth."""
        ends = [self.geometry.flat(params) for params in self.trial.after[epochs]]
        return np.stack(ends) - self.geometry.theta

    def projected(self, epochs: int) -> tuple[np.ndarray, np.ndarray]:
        """c_k and ⟨Δ_i, Δ_j⟩_F at a depth."""
        if epochs not in self._projected:
            self._projected[epochs] = self.geometry.project(self.updates(epochs))
        return self._projected[epochs]

    def at(self, epochs: int) -> dict[str, float]:
        """A row of the depth table: means over the experts, and the waste of their average."""
        c, inner = self.projected(epochs)
        total = np.diag(inner)
        kl = [self.geometry.kl(params) for params in self.trial.after[epochs]]
        row = {
            "signal": c**2,
            "waste": total - c**2,
            "total": total,
            "alignment": c**2 / total,
            "cosine": c / np.sqrt(total),
            "kl": kl,
            "gain": self.updates(epochs) @ self.geometry.gradient,
            "gain_natural": c * self.geometry.natural.norm,
        }
        means = {name: float(np.mean(values)) for name, values in row.items()}
        if self.experts == 1:
            return means
        agreed = agreement(c, inner)
        names = ("rho_signal", "rho_waste", "rho_total", "signal_spread")
        means |= {name: agreed[name] for name in names}
        return means | self.width(self.experts, epochs)

    def width(self, width: int, epochs: int | None = None) -> dict[str, float]:
        """Waste of the average of `width` experts over their own; the mean over disjoint groups."""
        c, inner = self.projected(epochs or self.depth)
        waste = inner - np.outer(c, c)
        groups = np.arange(len(c) // width * width).reshape(-1, width)
        blocks = [waste[np.ix_(group, group)] for group in groups]
        ratio = [np.mean(block) / np.mean(np.diag(block)) for block in blocks]
        rho_waste = agreement(c, inner)["rho_waste"] if len(c) > 1 else 1.0
        predicted = predicted_ratio(width, rho_waste)
        return {"waste_ratio": float(np.mean(ratio)), "waste_ratio_predicted": predicted}

    def plane(self) -> dict[str, Any]:
        """The experts in the plane of the natural gradient and the main axis of their waste."""
        c, inner = self.projected(self.depth)
        waste = inner - np.outer(c, c)
        sizes, axes = np.linalg.eigh(waste)
        along = axes[:, -1] * math.sqrt(max(sizes[-1], 0.0))
        along = along * (1.0 if np.mean(along) >= 0 else -1.0)
        kl = np.mean([self.geometry.kl(params) for params in self.trial.after[self.depth]])
        return {
            "signal": c.tolist(),
            "waste": along.tolist(),
            "share_of_waste": float(np.sum(along**2) / np.trace(waste)),
            "kl": float(kl),
        }


def _apart(views: list[_View]) -> dict[str, float]:
    """ρ_ε of updates on different batches, and the waste of the average of one for each batch.

    `predicted` is 1/K + (1 − 1/K) ρ_ε for as many batches as there are experts.
    """
    rows: list[dict[str, float]] = []
    width = views[0].experts
    updates = np.concatenate([view.updates(view.depth) for view in views])
    for view in views if len(views) > 1 else []:
        c, inner = view.geometry.project(updates)
        groups = [np.arange(expert, len(c), width) for expert in range(width)]
        groups_agreement = [agreement(c[group], inner[np.ix_(group, group)]) for group in groups]
        rho = float(np.mean([each["rho_waste"] for each in groups_agreement]))
        waste = inner - np.outer(c, c)
        blocks = [waste[np.ix_(group, group)] for group in groups]
        ratio = np.mean([np.mean(block) / np.mean(np.diag(block)) for block in blocks])
        predicted = predicted_ratio(width, rho)
        rows.append({"rho_waste": rho, "waste_ratio": float(ratio), "predicted": predicted})
    return _mean_and_error(rows) if rows else {}


def _damping_rows(views: list[_View]) -> list[dict[str, float]]:
    """The alignment for each damping, and the gain of a unit step on its own and on other batches.

    A step of unit Fisher length along d̂ gains gᵀd̂ on the batch from which d̂ was computed. The mean
    of g'ᵀd̂ over the gradients g' of the other batches is the part of it that is not noise.
    """
    rows: dict[float, list[dict[str, float]]] = {share: [] for share in DAMPINGS}
    for index, view in enumerate(views):
        geometry = view.geometry
        updates, totals = view.updates(view.depth), np.diag(view.projected(view.depth)[1])
        others = [v.geometry.gradient for i, v in enumerate(views) if i != index]
        for share in DAMPINGS:
            natural = natural_gradient(
                geometry.product, geometry.gradient, share, iterations=ITERATIONS
            )
            unit = natural.x / natural.norm
            c = updates @ natural.image / natural.norm
            row = {
                "damping": natural.damping,
                "residual": natural.residual,
                "iterations": natural.iterations,
                "alignment": float(np.mean(c**2 / totals)),
                "gain": float(geometry.gradient @ unit),
            }
            if others:
                row["gain_elsewhere"] = float(np.mean([g @ unit for g in others]))
            rows[share].append(row)
    return [{"share": share, **_mean_and_error(values)} for share, values in rows.items()]


def _mean_and_error(rows: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each key, and with several rows its standard error under key_se."""
    out = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        out[key] = float(np.mean(values))
        if len(values) > 1:
            out[f"{key}_se"] = float(standard_error(np.array(values, float)))
    return out


def _widths(experts: int) -> list[int]:
    """1, 2, 4, … up to `experts`, and `experts` itself."""
    return sorted({2**i for i in range(experts.bit_length()) if 2**i <= experts} | {experts})


def table(numbers: dict[str, Any], returns: dict[int, float]) -> str:
    """The paper's table of depths as text, from the numbers of `study`.

    `returns` has the returns that are known, by depth.
    """
    heads = ("E", "return", "signal", "waste", "total", "α", "cos_F", "KL", "ρ_waste", "ratio")
    lines = ["".join(f"{head:>9}" for head in heads)]
    for row in numbers["depths"]:
        known = returns.get(row["epochs"])
        cells = [str(row["epochs"]), "–" if known is None else f"{known:.0f}"]
        cells += [f"{1e3 * row[key]:.2f}" for key in ("signal", "waste", "total")]
        cells += [f"{row[key]:.3f}" for key in ("alignment", "cosine")]
        cells.append(f"{1e3 * row['kl']:.2f}")
        cells += [f"{row[key]:.3f}" if key in row else "–" for key in ("rho_waste", "waste_ratio")]
        lines.append("".join(f"{cell:>9}" for cell in cells))
    batches, experts = numbers["batches"], numbers["experts"]
    lines += [
        f"signal c², waste ‖ε‖², total (twice the KL) and the exact KL in 10⁻³ nats; means over "
        f"{batches} batch{'es' * (batches > 1)} × {experts} shuffles",
        f"ratio: waste of the average of the {experts} over theirs" if experts > 1 else "",
        _width_line(numbers),
        f"F⁻¹g: damping {max(numbers['damping']):.3g} ({numbers['damping_share']:g} of F's largest "
        f"eigenvalue asked for), residual {max(numbers['residual']):.1e}, "
        f"{max(numbers['iterations'])} iterations",
    ]
    return "\n".join(line for line in lines if line)


def _width_line(numbers: dict[str, Any]) -> str:
    """What an average removes of the waste: over shuffles of one batch, and over batches."""
    own = next(row for row in numbers["depths"] if row["epochs"] == numbers["depth"])
    apart = numbers["apart"]
    if "rho_waste" not in own or not apart:
        return ""
    return (
        f"at E = {numbers['depth']}: ρ_waste {own['rho_waste']:.2f} between shuffles of a batch, "
        f"{apart['rho_waste']:.2f} between batches; the average of {numbers['experts']} keeps "
        f"{own['waste_ratio']:.0%} and {apart['predicted']:.0%} of the waste"
    )


def check_depths(epochs: Sequence[int], own: int) -> tuple[tuple[int, ...], int]:
    """Sorts the depths; also returns the one closest to `own`, the depth of the policy's run."""
    if not epochs or min(epochs) < 1:
        raise UsageError(
            f"{name_of('epochs')} is {epochs}; it must be one or more numbers of at least 1"
        )
    ordered = tuple(sorted(set(epochs)))
    return ordered, min(ordered, key=lambda e: (abs(e - own), e))
