"""Trains a small model on all ranks of `mpiup run python3 train.py`: no launcher, no flag, no address.

Each rank sees its own part of the data. It prints one line a rank, and ends with 1 where the loss did not
fall or the ranks' weights differ.
"""

import datetime
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def data(rank, size, rows=512):
    """A line with noise: y = x·w + 0.5, of which each rank has other rows."""
    torch.manual_seed(1)
    w = torch.randn(8, 1)
    torch.manual_seed(100 + rank)
    x = torch.randn(rows // size, 8)
    return x, x @ w + 0.5 + 0.01 * torch.randn(len(x), 1)


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(minutes=2))
    rank, size = dist.get_rank(), dist.get_world_size()
    if cuda:
        import os

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    device = "cuda" if cuda else "cpu"

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = (t.to(device) for t in data(rank, size))
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    same = torch.equal(mine, first)
    # One write a line: print would be two, and other ranks' lines may come between.
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    dist.destroy_process_group()
    return 0 if same and losses[-1] < losses[0] / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
