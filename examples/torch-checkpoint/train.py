"""Trains a small model with torch, saves when its pods are taken away, and goes on where it was (docs/preemption.md).

    mpiup run -n 4 --checkpoint-dir /shared/run1 python3 train.py 1000 10

STEPS steps with MILLISECONDS each. After SIGTERM to any pod of the job mpiup run ends with 249; the same command again
resumes. With --max-restarts N ranks that failed begin at the last checkpoint by themselves, and with --min-np A also as
fewer or more of them (docs/restart.md): the ranks share the same rows, so the training does not depend on how many they are.

Four things matter, whatever is trained:
  - The handler sets a flag and nothing else. Ranks see it at different times, so they agree at each step whether to end.
  - The file gets its name when it is whole: a kill at any moment leaves the last whole checkpoint.
  - What is saved is the model, the optimizer and the step; rank 0 does it, since all ranks have the same.
  - All ranks end by themselves, with any code, before --term-grace is over.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EVERY = 50  # steps between two checkpoints, for ranks that fail without a signal
told = False


def tell(signum, frame):
    global told
    told = True


def data(rank, size, rows=480):
    """A line with noise, of whose rows each rank has its share: as many as any other for 1 to 6 ranks, 8, 10, 12 ..."""
    torch.manual_seed(1)
    x = torch.randn(rows, 8)
    y = x @ torch.randn(8, 1) + 0.5 + 0.01 * torch.randn(rows, 1)
    return x[rank::size], y[rank::size]


def save(path, state):
    with open(path + ".part", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".part", path)


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    signal.signal(int(os.environ.get("MPIUP_PREEMPT_SIGNAL", signal.SIGTERM)), tell)  # before the ranks meet, which may take long
    steps, pause = ([int(a) for a in sys.argv[1:3]] + [1000, 10][len(sys.argv) - 1 :])[:2]
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if cuda else torch.device("cpu")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device), device_ids=[device] if cuda else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)

    folder = os.environ.get("MPIUP_CHECKPOINT_DIR")  # None: nobody said where to save
    path = folder and os.path.join(folder, "checkpoint.pt")
    step = 0
    if path and os.path.exists(path):
        state = torch.load(path, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    if rank == 0:
        say(f"begins at step {step}, restart {os.environ.get('MPIUP_RESTART_COUNT', 0)}, {size} ranks")

    x, y = (t.to(device) for t in data(rank, size))
    loss, end = torch.zeros(1, device=device), torch.zeros(1, device=device)
    while step < steps and not end.item():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        end.fill_(told)
        dist.all_reduce(end, dist.ReduceOp.MAX)
        if path and rank == 0 and (end.item() or step % EVERY == 0):
            save(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step})
        time.sleep(pause / 1000)
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    dist.barrier()  # nobody ends before the file is whole
    if rank == 0:
        say(f"saved at step {step}" if step < steps else f"trained {step} steps, loss {loss.item() / size:.5f}")
    dist.destroy_process_group()
    return 1 if step < steps else 0


if __name__ == "__main__":
    sys.exit(main())
