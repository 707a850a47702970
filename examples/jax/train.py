"""Trains a small model on all ranks of `mpiup run python3 train.py` with JAX: initialize() needs no arguments.

The data lies sharded over all ranks' devices, and jit makes the all-reduce of the gradients. It prints one line
a rank, and ends with 1 where the loss did not fall or the ranks' weights differ.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 60


def data(rank, size, rows=512):
    """A line with noise: y = x·w + 0.5, of which each rank has other rows."""
    w = np.random.default_rng(1).normal(size=(8, 1))
    rng = np.random.default_rng(100 + rank)
    x = rng.normal(size=(rows // size, 8))
    return x.astype("float32"), (x @ w + 0.5 + 0.01 * rng.normal(size=(len(x), 1))).astype("float32")


def loss_of(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights["in"] + weights["bias"]) @ weights["out"] - y) ** 2)


@jax.jit
def step(weights, x, y):
    loss, grads = jax.value_and_grad(loss_of)(weights, x, y)
    return loss, jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)


def main():
    jax.distributed.initialize()
    rank, size = jax.process_index(), jax.process_count()
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    x, y = (jax.make_array_from_process_local_data(rows, a) for a in data(rank, size))
    rng = np.random.default_rng(0)
    weights = {"in": rng.normal(size=(8, 16)) / 4, "bias": np.zeros(16), "out": rng.normal(size=(16, 1)) / 4}
    weights = {k: v.astype("float32") for k, v in weights.items()}
    losses = []
    for _ in range(STEPS):
        loss, weights = step(weights, x, y)
        losses.append(float(loss))
    mine = np.concatenate([np.asarray(w).ravel() for w in weights.values()])
    same = bool((multihost_utils.process_allgather(mine) == mine).all())
    # One write a line: print would be two, and other ranks' lines may come between.
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    return 0 if same and losses[-1] < losses[0] / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
