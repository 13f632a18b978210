"""Action noise that is correlated in time, with the marginal distribution of white noise.

Exploration by independent noise in every step cancels over a few steps; noise with more power at
low frequencies keeps a direction for longer. Every sample is still exactly standard normal, so
actions are distributed as the policy says in every state, and log-probabilities hold.
"""

import numpy as np
from jaxtyping import Float

MEMORY = 256
"""Steps that a sample depends on."""


def kernel(colour: float, memory: int = MEMORY) -> Float[np.ndarray, " memory"]:
    """ψ_j = Γ(j + β/2) / (Γ(j + 1) Γ(β/2)) for j < `memory`, scaled to Σ ψ² = 1.

    The filter (1 − B)^(−β/2) of fractional integration: the spectrum of x_t = Σ_j ψ_j ε_(t−j) is
    proportional to 1/f^β above the frequency 1/`memory`. β = 0 gives ψ = (1, 0, 0, …).
    """
    j = np.arange(1, memory)
    psi = np.concatenate([[1.0], np.cumprod((j - 1 + colour / 2) / j)])
    return psi / np.sqrt(np.sum(psi**2))


def coloured(
    white: Float[np.ndarray, "past_and_steps *rest"], colour: float
) -> Float[np.ndarray, "steps *rest"]:
    """x_t = Σ_j ψ_j ε_(t−j) along the first axis, whose first `MEMORY` − 1 entries are the past."""
    psi = kernel(colour).astype(white.dtype).reshape(-1, *[1] * (white.ndim - 1))
    # The cyclic convolution agrees with the plain one wherever the kernel does not wrap around.
    size = 2 ** (len(white) - 1).bit_length()
    product = np.fft.rfft(white, size, axis=0) * np.fft.rfft(psi, size, axis=0)
    return np.fft.irfft(product, size, axis=0)[MEMORY - 1 : len(white)].astype(white.dtype)
