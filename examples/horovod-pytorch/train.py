"""Trains a small model on all ranks of `mpiup run python3 train.py` with Horovod, by MPI or by Gloo as it was built.

Each rank sees its own part of the data. It prints one line a rank, and ends with 1 where the loss did not
fall or the ranks' weights differ.
"""

import sys

import horovod.torch as hvd
import torch
from torch import nn

STEPS = 60


def data(rank, size, rows=512):
    """A line with noise: y = x·w + 0.5, of which each rank has other rows."""
    torch.manual_seed(1)
    w = torch.randn(8, 1)
    torch.manual_seed(100 + rank)
    x = torch.randn(rows // size, 8)
    return x, x @ w + 0.5 + 0.01 * torch.randn(len(x), 1)


def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        model.cuda()
    device = next(model.parameters()).device
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    x, y = (t.to(device) for t in data(hvd.rank(), hvd.size()))
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    same = torch.equal(mine, hvd.broadcast(mine, 0))
    # One write a line: print would be two, and other ranks' lines may come between.
    sys.stdout.write(f"rank {hvd.rank()} of {hvd.size()}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    return same and losses[-1] < losses[0] / 4


def main():
    hvd.init()
    good = train()
    hvd.shutdown()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
