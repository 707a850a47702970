"""Trains the examples' small model by torch's DDP, and one more weight by JAX over all ranks, in one process."""

import sys

import jax
import numpy as np
import torch
import torch.distributed as dist
from jax.experimental import multihost_utils
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def main():
    jax.distributed.initialize()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    agree = jax.process_index() == rank and jax.process_count() == size
    torch.manual_seed(0)
    w = torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    torch.manual_seed(100 + rank)
    x = torch.randn(512 // size, 8)
    y = x @ w + 0.5
    bias = np.zeros(1, np.float32)  # JAX's own weight, whose gradient its own all-gather averages
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        out = ddp(x)
        loss = nn.functional.mse_loss(out + torch.from_numpy(bias), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        grad = jax.grad(lambda b, e: ((e + b) ** 2).mean())(bias[0], (out - y).detach().numpy())
        bias = bias - 0.1 * multihost_utils.process_allgather(grad).mean()
        losses.append(loss.item())
    mine = torch.cat([p.detach().flatten() for p in model.parameters()] + [torch.from_numpy(bias)])
    first = mine.clone()
    dist.broadcast(first, 0)
    same = agree and torch.equal(mine, first)
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
