"""Why old batches shrink the deviation: the gradient in log σ by the age of the batch.

python -m benchmarks.deviation

Trains capo-avg with eight experts on the last eight batches for 300k steps on Walker2d-v4, with
three seeds, and measures E[w A (z² − 1)], the mean over the actions' dimensions, before every
update, with the incumbent on each of its batches. Writes results/deviation.json and .png, and the
table of docs/why-it-works.md.
"""

import functools
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from benchmarks.documents import DOCS, RESULTS, fill_section
from capo.config import Config
from capo.core.ppo import standardize
from capo.core.settings import PolicySettings
from capo.methods import settle
from capo.report.format import typeset
from capo.report.plots import BLUE, save_png, tidy
from capo.samples import last_batches
from capo.statistics import standard_error
from capo.storage.compiled import prepare_jax
from capo.storage.files import write_json
from capo.train import generations

FILE, PICTURE, PAGE = RESULTS / "deviation.json", "deviation.png", DOCS / "why-it-works.md"
ENV, STEPS, SEEDS = "Walker2d-v4", 300_000, (1, 2, 3)


@functools.partial(jax.jit, static_argnames="ages")
def gradients(
    config: PolicySettings, ages: int, policy: Any, critic: Any, past: Any, batch: Any
) -> Any:
    """E[w A (z² − 1)] on each batch, the newest first."""
    earlier = last_batches(config, policy, critic, past, batch)
    pool, own = earlier.samples, earlier.advantages
    mean, log_std = jnp.split(pool.dist, 2, axis=-1)
    z = (pool.actions - mean) / jnp.exp(log_std)
    gains = jax.vmap(standardize)(own.reshape(ages, -1)).reshape(-1)
    terms = pool.importance * gains * jnp.mean(z**2 - 1, axis=-1)
    return jnp.mean(terms.reshape(ages, -1), axis=1)


def measure(seed: int) -> list[float]:
    """The mean gradient over a run, by age."""
    config = settle(Config(ENV, "capo-avg", STEPS, seed, diagnostics=0))
    found = []
    for before, after in pairwise(generations(config)):
        state = before.state
        if before.number + 1 < config.batches:
            continue
        past: Any = after.state.past
        batch = jax.tree.map(lambda x: x[0], past.batches)
        found.append(
            gradients(
                config.for_policy, config.batches, state.policy, state.critic, state.past, batch
            )
        )
    return np.mean(jax.device_get(found), axis=0).tolist()


def table(seeds: list[list[float]]) -> str:
    """A row of means over the seeds, with their standard errors."""
    columns = np.array(seeds).T
    heads = " | ".join(f"{age}" for age in range(len(columns)))
    cells = [f"{1e3 * c.mean():.1f} ± {1e3 * standard_error(c):.1f}" for c in columns]
    cells = [typeset(cell) for cell in cells]
    return "\n".join(
        [
            f"| age of the batch in generations | {heads} |",
            "|---|" + "---:|" * len(columns),
            f"| gradient in log σ, 10⁻³ | {' | '.join(cells)} |",
        ]
    )


def draw(seeds: list[list[float]]) -> None:
    """The gradient against the age of the batch."""
    columns = np.array(seeds).T
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    errors = [standard_error(column) for column in columns]
    axes.errorbar(
        range(len(columns)), columns.mean(axis=1), errors, color=BLUE, fmt="o-", capsize=2
    )
    axes.axhline(0, color="black", lw=0.8)
    axes.set(xlabel="age of the batch in generations", ylabel="E[w A (z² − 1)]")
    axes.set_title(f"{ENV}: the gradient in log σ, {len(seeds)} seeds")
    tidy(axes)
    save_png(figure, RESULTS / PICTURE)


def main() -> None:
    """Trains, then writes."""
    prepare_jax()
    seeds = [measure(seed) for seed in SEEDS]
    write_json(FILE, {"env": ENV, "steps": STEPS, "gradients": seeds})
    draw(seeds)
    fill_section(PAGE, "deviation", table(seeds))
    print(table(seeds))


if __name__ == "__main__":
    main()
