"""Signal and waste of an update of your own policy, without capo's networks or training loop.

Compares a policy gradient step and a natural gradient step of the same KL on the same batch.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from capo.core.families import Categorical
from capo.core.fisher import Experience, Geometry, decompose

FAMILY = Categorical(3)  # three actions; the network outputs their logits


def logits(params, obs):
    """The network: any function of parameters and observations."""
    return jnp.tanh(obs @ params["w"]) @ params["head"]


keys = jax.random.split(jax.random.key(0), 5)
before = {
    "w": jax.random.normal(keys[0], (4, 16)) / 2,
    "head": jax.random.normal(keys[1], (16, 3)) / 4,
}
obs = jax.random.normal(keys[2], (1024, 4))
actions = jax.random.categorical(keys[3], logits(before, obs))
advantages = jnp.where(actions == jnp.argmax(obs[:, :3], axis=1), 1.0, -0.5)
batch = Experience(obs, actions, np.asarray(advantages))

geometry = Geometry(FAMILY, before, batch, logits)
steps = {"plain gradient": geometry.gradient, "natural gradient": geometry.natural.x}
_, unravel = ravel_pytree(before)
for name, direction in steps.items():
    length = np.sqrt(2 * 0.01 / (direction @ geometry.product(direction)))
    after = unravel(jnp.asarray(geometry.theta + length * direction, jnp.float32))
    split = decompose(FAMILY, before, after, batch, logits)
    print(
        f"{name}: KL {split.kl:.4f}, signal {split.signal:.4f}, waste {split.waste:.4f}, "
        f"alignment {split.alignment:.2f}, first-order gain {split.gain:.3f}"
    )
