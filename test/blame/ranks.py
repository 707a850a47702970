"""ranks.py STACK ODD HOW DIR [CODE]: ranks exchange something without end; after five steps rank ODD does HOW, and the others wait for it.

STACK says by what they exchange: torch (Gloo), mpi4py, or sockets (of a ring). HOW is as in test/mpi/blame.c, and besides
    raise    an exception            handled   an exception while another one is handled
    letgo    it closes what joins it with the others, and ends CODE 0.3 s later without a word
    away     it never comes to where the others meet
    thread   an exception of a thread, which it outlives, some time before it ends with CODE
ranks.py STACK SECONDS HABIT DIR habit: a job that goes on, and ends with 0.
    evaluate     rank 0 computes, the others wait      sleep_all   all sleep
    recv         rank 2 reads slowly from a socket     child       rank 2 waits for a child that computes
    checkpoint   rank 0 saves, the others wait         load        rank 2 reads a file through a map, page by page
"""

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time

stack, odd, how, directory = sys.argv[1:5]
last = sys.argv[5] if len(sys.argv) > 5 else "0"
rank, size = int(os.environ["MPIUP_RANK"]), int(os.environ["MPIUP_SIZE"])


class Ring:
    """Each rank sends to the next one and hears from the one before."""

    def __init__(self):
        mine = socket.socket()
        mine.bind((socket.gethostbyname(socket.gethostname()), 0))
        mine.listen()
        name = f"{directory}/ring.{rank}"
        with open(name + ".new", "w") as f:
            f.write("%s %d" % mine.getsockname())
        os.rename(name + ".new", name)
        self.next = socket.create_connection(self.address((rank + 1) % size))
        self.prior = mine.accept()[0]

    def address(self, peer):
        while not os.path.exists(f"{directory}/ring.{peer}"):
            time.sleep(0.01)
        host, port = open(f"{directory}/ring.{peer}").read().split()
        return host, int(port)

    def step(self):
        for _ in range(size):
            self.next.sendall(b"x")
            if not self.prior.recv(1):
                raise ConnectionResetError(104, "Connection reset by peer")

    def close(self):
        self.next.close()
        self.prior.close()


class Torch:
    def __init__(self):
        import torch
        import torch.distributed as dist
        self.dist, self.x = dist, torch.ones(1000)
        dist.init_process_group("gloo")

    def step(self):
        self.dist.all_reduce(self.x)

    def close(self):
        self.dist.destroy_process_group()


class MPI4py:
    def __init__(self):
        from mpi4py import MPI
        self.world = MPI.COMM_WORLD

    def step(self):
        self.world.allreduce(1)


def compute(seconds):
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        n += 1


def fail(text):
    raise ValueError(text)


def misbehave(code):
    if how == "raise":
        fail("loss is nan at step 5")
    if how == "handled":
        try:
            open(f"{directory}/data/shard.7")
        except OSError:
            fail("no shard for this rank")
    if how == "exit":
        os._exit(code)
    if how == "leave":
        sys.exit(code)
    if how == "letgo":
        peers.close()
        time.sleep(0.3)
        os._exit(code)
    if how == "thread":
        t = threading.Thread(target=fail, args=("a thread's own",))
        t.start()
        t.join()
        for _ in range(300):
            peers.step()
        os._exit(code)
    if how == "segv":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    room = []
    while how == "oom":
        room.append(bytearray(b"x" * (1 << 20)))
    while how == "spin":
        pass
    time.sleep(1000)


def serve(seconds):
    """Reads slowly from a child's socket."""
    here = socket.create_server(("127.0.0.1", 0))
    child = subprocess.Popen([sys.executable, "-c", "import socket, sys, time\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
                              "while True:\n    s.sendall(b'x' * 3000)\n    time.sleep(0.1)\n", str(here.getsockname()[1])], start_new_session=True, stderr=subprocess.DEVNULL)
    data, until = here.accept()[0], time.monotonic() + seconds
    while time.monotonic() < until:
        data.recv(512)
    child.kill()
    child.wait()


def load(seconds):
    """Reads a file that is mapped, page by page."""
    path = f"{directory}/mapped"
    with open(path, "wb") as f:
        f.write(b"x" * (16 << 20))
    until, at, n = time.monotonic() + seconds, 0, 0
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        while time.monotonic() < until:
            if at % (1 << 20) == 0:
                m.madvise(mmap.MADV_DONTNEED)
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            n += m[at]
            at = (at + 4096) % len(m)
            time.sleep(0.005)


def habit(seconds):
    if how == "sleep_all":
        time.sleep(seconds)
    elif how == "evaluate" and rank == 0:
        compute(seconds)
    elif how == "recv" and rank == 2:
        serve(seconds)
    elif how == "load" and rank == 2:
        load(seconds)
    elif how == "child" and rank == 2:
        subprocess.run([sys.executable, "-c", f"import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass\n"], check=True)
    elif how == "checkpoint" and rank == 0:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with open(f"{directory}/checkpoint", "wb") as f:
                f.write(b"x" * (1 << 20))
                f.flush()
                os.fsync(f.fileno())
            time.sleep(0.9)


if rank == int(float(odd)) and last != "habit":
    if how == "away":
        time.sleep(1000)
    if how == "before":
        sys.exit(int(last))
peers = {"sockets": Ring, "torch": Torch, "mpi4py": MPI4py}[stack]()
for _ in range(5):
    peers.step()
if last == "habit":
    habit(float(odd))
    peers.step()
    sys.exit(0)
print(f"rank {rank} is there", flush=True)
if how == "both":
    peers.step()
    if rank == (int(odd) + 1) % size:
        time.sleep(0.003)
        os._exit(5)
    if rank == int(odd):
        os._exit(int(last))
if rank == int(odd):
    misbehave(int(last))
while True:
    peers.step()
