"""Trains the examples' small model by Accelerate, without its launcher."""

import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 60


def main():
    accelerator = Accelerator(cpu=not torch.cuda.is_available())  # without a GPU it must be told, also by torchrun
    rank, size = accelerator.process_index, accelerator.num_processes
    torch.manual_seed(0)
    w, x = torch.randn(8, 1), torch.randn(512, 8)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = DataLoader(TensorDataset(x, x @ w + 0.5), batch_size=512 // size)
    model, optimizer, rows = accelerator.prepare(model, optimizer, rows)
    losses = []
    for _ in range(EPOCHS):
        for x, y in rows:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    all_ranks = accelerator.gather(mine).view(size, -1)
    same = bool((all_ranks == all_ranks[0]).all())
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    accelerator.end_training()


if __name__ == "__main__":
    main()
