"""Trains a small model on all ranks of `mpiup run python3 train.py` with Lightning, which starts no process itself.

Lightning gives each rank its own part of the data, and finds the others by RANK, NODE_RANK and MASTER_ADDR. How many
there are it takes from its Trainer: with other numbers than the run's, ranks would train alone or wait for
ever. It prints one line a rank, and ends with 1 where the loss did not fall or the ranks' weights differ.
"""

import os
import sys

import lightning as L
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 60


def data(rows=512):
    """A line with noise: y = x·w + 0.5. Lightning's sampler divides its rows among the ranks."""
    generator = torch.Generator().manual_seed(1)
    w = torch.randn(8, 1, generator=generator)
    x = torch.randn(rows, 8, generator=generator)
    return TensorDataset(x, x @ w + 0.5 + 0.01 * torch.randn(rows, 1, generator=generator))


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.losses = []

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    size, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    L.seed_everything(0, verbose=False)
    model, rows = Model(), data()
    trainer = L.Trainer(
        accelerator="auto",
        devices=here,
        num_nodes=size // here,
        strategy="ddp",
        plugins=LightningEnvironment(),  # where mpi4py is installed, Lightning would take rank 0's host name from it, and any port
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(rows, batch_size=len(rows) // size))

    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    same = torch.equal(mine, trainer.strategy.broadcast(mine, 0).to(mine.device))
    first, last = model.losses[0], model.losses[-1]
    # One write a line: print would be two, and other ranks' lines may come between.
    sys.stdout.write(f"rank {trainer.global_rank} of {trainer.world_size}: loss {first:.3f} to {last:.3f}, weights equal rank 0's: {same}\n")
    return 0 if same and trainer.world_size == size and last < first / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
