"""A trained policy under the lens: the same update at several depths and for several shuffles."""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from capo.adam import init_optimizer
from capo.adapters import encoded
from capo.config import Config, UsageError
from capo.consensus import tree_pick
from capo.diagnostics import agreement, experience, predicted_ratio, unstack
from capo.envs import make
from capo.experts import shares
from capo.families import Family
from capo.fisher import Apply, Experience, Geometry
from capo.krylov import DAMPING, natural_gradient
from capo.model import Model, check_fit
from capo.networks import Critic, Policy
from capo.ppo import Samples, ppo_update
from capo.rollout import Batch, Collector, collect
from capo.statistics import standard_error
from capo.update import advantages_of, samples_of

LADDER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Dampings that the alignment is compared over, as shares of F's largest eigenvalue."""
TOLERANCE, ITERATIONS = 1e-6, 200
"""There is more time than during a run."""


class Trial(NamedTuple):
    """One batch, and what K updates on it led to, at each depth."""

    family: Family
    apply: Apply | None
    before: Any
    data: Experience
    after: dict[int, list[Any]]


def trials(
    model: Model,
    epochs: Sequence[int],
    experts: int,
    batches: int,
    seed: int,
    learning_rate: float | None = None,
) -> Iterator[Trial]:
    """Collects fresh batches with the model and repeats PPO's update on each, from the same policy.

    The normaliser's statistics stay the model's. Adam starts with the moments of an update on a
    batch of its own, which is thrown away; the learning rate is the configuration's, not annealed.
    """
    plain = {"diversity": "shuffle", "base_optimizer": "ppo", "target_kl": 0.0, "diagnostics": 0}
    config = model.config.replace(algo="ppo", seed=seed, **plain)
    rate = jnp.float32(learning_rate or config.learning_rate)
    moments = init_optimizer(config, model.policy)
    env = encoded(make(config.env_id, config.num_envs, seed, config.backend), config)
    try:
        check_fit(model, env.observation_space, env.action_space, config.env_id)
        collector = Collector.init(env, config)
        for index in range(batches + 1):
            stats = {"obs_stats": model.obs_stats, "return_stats": model.return_stats}
            collector, batch, _ = collect(
                env, model.policy, collector._replace(**stats), config, _rng(seed, index)
            )
            samples, advantages = _prepare(config, model.policy, model.critic, batch)
            key = jax.random.fold_in(jax.random.key(seed), index)
            every = jnp.broadcast_to(advantages, (experts, advantages.size))
            start = _replicas((model.policy, moments), experts)
            if index == 0:
                *_, end = _epochs(config, key, start, samples, every, rate, config.epochs)
                moments = tree_pick(end[1], 0)
                continue
            path = _epochs(config, key, start, samples, every, rate, max(epochs))
            after = {
                done: unstack(jax.device_get(policies))
                for done, (policies, _) in enumerate(path, 1)
                if done in epochs
            }
            data = experience(batch, np.asarray(advantages))
            yield Trial(model.policy.family, None, model.policy, data, after)
    finally:
        env.close()


@functools.partial(jax.jit, static_argnums=0)
def _prepare(config: Config, policy: Policy, critic: Critic, batch: Batch):
    """The batch as the experts see it, and its advantages in one axis."""
    advantages = advantages_of(config, critic, batch)[1]
    return samples_of(policy, batch, advantages, config)[0], advantages.reshape(-1)


def _rng(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng([seed, index])


def _replicas(tree: Any, count: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), tree)


def _epochs(config, key, start, samples, advantages, rate, depth: int) -> Iterator[Any]:
    """The K experts' parameters and moments after each epoch."""
    for index in range(depth):
        share = shares(jax.random.fold_in(key, index), advantages, 1, config)
        start = _epoch(config, *start, samples, share, rate)
        yield start


@functools.partial(jax.jit, static_argnums=0)
def _epoch(config: Config, policies: Policy, states: optax.OptState, samples: Samples, share, rate):
    def one(policy, state, own):
        out = ppo_update(policy, state, samples, own, rate, config)
        return out.policy, out.opt_state

    return jax.vmap(one)(policies, states, share)


def study(found: Iterable[Trial], depth: int, damping: float = DAMPING) -> dict[str, Any]:
    """Everything that `capo diagnose` shows, as plain numbers.

    `depth` is the one that width, geometry and damping are looked at. Each number is a mean over
    batches, with its standard error where there are several.
    """
    views = [_View(trial, depth, damping) for trial in found]
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
            for width in _powers(first.experts)
        ],
        "ladder": _ladder(views),
        "plane": first.plane(),
    }


class _View:
    """One trial in its own geometry."""

    def __init__(self, trial: Trial, depth: int, damping: float):
        self.trial, self.depth = trial, depth
        before, data = trial.before, trial.data
        options = {"damping": damping, "tolerance": TOLERANCE, "iterations": ITERATIONS}
        self.geometry = Geometry(trial.family, before, data, trial.apply, **options)
        self.experts = len(trial.after[depth])
        self._projected: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def updates(self, epochs: int) -> Float[np.ndarray, "k p"]:
        """Δ_k at a depth."""
        ends = [self.geometry.flat(params) for params in self.trial.after[epochs]]
        return np.stack(ends) - self.geometry.theta

    def projected(self, epochs: int) -> tuple[np.ndarray, np.ndarray]:
        """c_k and ⟨Δ_i, Δ_j⟩_F at a depth."""
        if epochs not in self._projected:
            self._projected[epochs] = self.geometry.project(self.updates(epochs))
        return self._projected[epochs]

    def at(self, epochs: int) -> dict[str, float]:
        """A row of the depth table: means over the experts, and their average."""
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
        alike = agreement(c, inner)
        kept = ("rho_signal", "rho_waste", "rho_total", "signal_spread")
        means |= {name: alike[name] for name in kept}
        return means | self.width(self.experts, epochs)

    def width(self, width: int, epochs: int | None = None) -> dict[str, float]:
        """The waste of the average of `width` experts over theirs, mean over disjoint groups."""
        c, inner = self.projected(epochs or self.depth)
        waste = inner - np.outer(c, c)
        groups = np.arange(len(c) // width * width).reshape(-1, width)
        blocks = [waste[np.ix_(group, group)] for group in groups]
        ratio = [np.mean(block) / np.mean(np.diag(block)) for block in blocks]
        alike = agreement(c, inner)["rho_waste"] if len(c) > 1 else 1.0
        predicted = predicted_ratio(width, alike)
        return {"waste_ratio": float(np.mean(ratio)), "waste_ratio_predicted": predicted}

    def plane(self) -> dict[str, Any]:
        """The experts on the natural gradient's axis and on the main axis of their waste."""
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


def _ladder(views: list[_View]) -> list[dict[str, float]]:
    """The alignment for each damping, and what a unit step gains on its own and on other batches.

    A step of unit Fisher length along d̂ gains gᵀd̂ on the batch that d̂ was computed from. The mean
    of g'ᵀd̂ over the gradients g' of the other batches says how much of that is not noise.
    """
    rows: dict[float, list[dict[str, float]]] = {share: [] for share in LADDER}
    for index, view in enumerate(views):
        geometry = view.geometry
        updates, totals = view.updates(view.depth), np.diag(view.projected(view.depth)[1])
        others = [v.geometry.gradient for i, v in enumerate(views) if i != index]
        for share in LADDER:
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
    return [{"share": share, **_mean_and_error(found)} for share, found in rows.items()]


def _mean_and_error(rows: list[dict[str, float]]) -> dict[str, float]:
    """Each key's mean, and its standard error as key_se where there are several rows."""
    out = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        out[key] = float(np.mean(values))
        if len(values) > 1:
            out[f"{key}_se"] = float(standard_error(np.array(values, float)))
    return out


def _powers(most: int) -> list[int]:
    """1, 2, 4, … up to `most`, and `most` itself."""
    return sorted({2**i for i in range(most.bit_length()) if 2**i <= most} | {most})


def table(found: dict[str, Any], returns: dict[int, float]) -> str:
    """The paper's table of depths: means over batches and experts, 10⁻³ nats where it says so."""
    heads = ("E", "return", "signal", "waste", "total", "α", "cos_F", "KL", "ρ_waste", "ratio")
    lines = ["".join(f"{head:>9}" for head in heads)]
    for row in found["depths"]:
        known = returns.get(row["epochs"])
        cells = [str(row["epochs"]), "–" if known is None else f"{known:.0f}"]
        cells += [f"{1e3 * row[key]:.2f}" for key in ("signal", "waste", "total")]
        cells += [f"{row[key]:.3f}" for key in ("alignment", "cosine")]
        cells.append(f"{1e3 * row['kl']:.2f}")
        cells += [f"{row[key]:.3f}" if key in row else "–" for key in ("rho_waste", "waste_ratio")]
        lines.append("".join(f"{cell:>9}" for cell in cells))
    batches, experts = found["batches"], found["experts"]
    lines += [
        f"signal c², waste ‖ε‖², total (twice the KL) and the exact KL in 10⁻³ nats; means over "
        f"{batches} batch{'es' * (batches > 1)} × {experts} shuffles",
        f"ratio: waste of the average of the {experts} over theirs" if experts > 1 else "",
        f"F⁻¹g: damping {max(found['damping']):.3g} ({found['damping_share']:g} of F's largest "
        f"eigenvalue asked for), residual {max(found['residual']):.1e}, "
        f"{max(found['iterations'])} iterations",
    ]
    return "\n".join(line for line in lines if line)


def check_depths(epochs: Sequence[int], own: int) -> tuple[tuple[int, ...], int]:
    """The depths to look at, in order, and the one of them closest to the policy's own."""
    if not epochs or min(epochs) < 1:
        raise UsageError(f"--epochs is {epochs}; it must be one or more numbers of at least 1")
    ordered = tuple(sorted(set(epochs)))
    return ordered, min(ordered, key=lambda e: (abs(e - own), e))
