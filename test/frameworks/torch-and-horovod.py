"""Trains the examples' small model by torch's DDP and again by Horovod, in one process."""

import sys

import horovod.torch as hvd
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def main():
    dist.init_process_group("gloo")
    hvd.init()
    rank, size = dist.get_rank(), dist.get_world_size()
    agree = hvd.rank() == rank and hvd.size() == size
    torch.manual_seed(1)
    w = torch.randn(8, 1)
    torch.manual_seed(100 + rank)
    x = torch.randn(512 // size, 8)
    y = x @ w + 0.5
    by_ddp, by_horovod = DistributedDataParallel(model()), model()
    one = torch.optim.SGD(by_ddp.parameters(), lr=0.1)
    other = hvd.DistributedOptimizer(torch.optim.SGD(by_horovod.parameters(), lr=0.1), named_parameters=by_horovod.named_parameters())
    losses = []
    for _ in range(STEPS):
        for net, optimizer in ((by_ddp, one), (by_horovod, other)):
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    flat = [torch.cat([p.detach().flatten() for p in net.parameters()]) for net in (by_ddp, by_horovod)]
    first = torch.cat(flat)
    dist.broadcast(first, 0)
    # Both average the same gradients, in other orders.
    same = agree and torch.equal(torch.cat(flat), first) and torch.allclose(*flat, atol=1e-3)
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    hvd.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
