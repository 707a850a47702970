"""Trains a small model on all ranks of `mpiup run python3 train.py` with DeepSpeed's engine: no runner, no hostfile, no ssh.

Each rank sees its own part of the data, and keeps its own part of the optimizer's state (ZeRO 1). It prints one line
a rank, and ends with 1 where the loss did not fall or the ranks' weights differ.
"""

import sys

import deepspeed
import torch
from deepspeed import comm as dist
from torch import nn

STEPS = 60
CONFIG = {
    "train_micro_batch_size_per_gpu": 128,
    "zero_optimization": {"stage": 1},
}


def data(rank, rows):
    """A line with noise: y = x·w + 0.5, of which each rank has other rows."""
    torch.manual_seed(1)
    w = torch.randn(8, 1)
    torch.manual_seed(100 + rank)
    x = torch.randn(rows, 8)
    return x, x @ w + 0.5 + 0.01 * torch.randn(rows, 1)


def main():
    deepspeed.init_distributed()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    x, y = (t.to(engine.device) for t in data(rank, engine.train_micro_batch_size_per_gpu()))
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())

    mine = torch.cat([p.detach().flatten() for p in engine.module.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    same = torch.equal(mine, first)
    # One write a line: print would be two, and other ranks' lines may come between.
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    dist.destroy_process_group()
    return 0 if same and losses[-1] < losses[0] / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
