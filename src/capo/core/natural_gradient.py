"""The natural gradient F⁻¹g from Fisher-vector products, to a given residual."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

DAMPING = 1e-3
"""Least damping of F⁻¹g, as a share of F's largest eigenvalue."""
TOLERANCE = 1e-2
"""Relative residual that F⁻¹g is solved to."""
ITERATIONS = 100
"""Most Fisher-vector products spent on it; if they do not suffice, the damping grows."""

HostVector = Float[np.ndarray, " p"]


class NaturalGradient(NamedTuple):
    """x = (F + λI)⁻¹ g, its residual, λ and the number of products."""

    x: HostVector
    image: HostVector
    """F x."""
    norm: float
    """‖x‖_F."""
    damping: float
    """λ."""
    residual: float
    """‖g − (F + λI) x‖ / ‖g‖."""
    iterations: int


def natural_gradient(
    product: Callable[[HostVector], HostVector],
    g: HostVector,
    damping: float = DAMPING,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
) -> NaturalGradient:
    """Solves (F + λI) x = g by conjugate gradients in their Lanczos form, on the host.

    λ = `damping` · (largest eigenvalue of F). If `iterations` products leave the residual above
    `tolerance`, λ grows tenfold until it fits: one Krylov basis holds the solution for every λ.
    The basis is kept orthogonal, so float64 converges as exact arithmetic would; directions that F
    cannot see are left out, so with `damping` 0 the answer is the pseudo-inverse's. A gradient that
    is zero or not finite has no direction: x is zero.
    """
    size = float(np.linalg.norm(g))
    if not 0 < size < math.inf:
        return NaturalGradient(np.zeros_like(g), np.zeros_like(g), 0.0, 0.0, 0.0, 0)
    basis = np.empty((min(iterations, g.size), g.size))
    diagonal, off = np.empty(len(basis)), np.empty(len(basis))
    vector, solution = g / size, (np.zeros(0), math.inf, 0.0)
    for k in range(len(basis)):
        basis[k] = vector
        image = np.array(product(vector))
        diagonal[k] = vector @ image
        for _ in range(2):  # once leaves rounding errors, twice does not
            image -= (basis[: k + 1] @ image) @ basis[: k + 1]
        off[k] = np.linalg.norm(image)
        if off[k] <= 1e-12 * np.max(diagonal[: k + 1]):
            off[k] = 0.0  # the basis holds the exact solution
        last = k + 1 == len(basis) or off[k] == 0
        if last or k % 3 == 2:
            solution = _in_basis(diagonal[: k + 1], off[: k + 1], damping, tolerance, bool(last))
            if last or solution[1] <= tolerance:
                break
        vector = image / off[k]
    weights, residual, chosen = solution
    x = size * (weights @ basis[: len(weights)])
    image = np.asarray(product(x))
    norm = math.sqrt(max(float(x @ image), 0.0))
    return NaturalGradient(x, image, norm, chosen, residual, len(weights))


def _in_basis(
    diagonal: np.ndarray, off: np.ndarray, damping: float, tolerance: float, last: bool
) -> tuple[np.ndarray, float, float]:
    """Weights of the basis vectors that solve for g/‖g‖, the relative residual and λ."""
    band = np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    values, vectors = np.linalg.eigh(np.diag(diagonal) + band)
    share = damping
    while True:
        shifted = values + share * values[-1]
        seen = shifted > 1e-12 * values[-1]
        inverse = np.divide(vectors[0], shifted, out=np.zeros_like(shifted), where=seen)
        weights = vectors @ inverse
        residual = float(off[-1] * abs(weights[-1]))
        if residual <= tolerance or not last:
            return weights, residual, float(share * values[-1])
        share = max(10 * share, 1e-12)
