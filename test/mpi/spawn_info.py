"""spawn_info: what the info keys of MPI_Comm_spawn do. Prints a line for each of some: the hosts of the children, and
what they found. The children's arguments hold a blank, a backslash, "=" and a line end."""
import os
import sys

from mpi4py import MPI

ARGS = ["a b", "c\\d", "e=f", "two\nlines=2\n\n end"]


def child():
    parent = MPI.Comm.Get_parent()
    assert sys.argv[2:] == ARGS, sys.argv
    parent.gather((MPI.Get_processor_name(), os.getcwd(), os.environ.get("SPAWN_A"), os.environ.get("SPAWN_B")), root=0)
    parent.Disconnect()


def spawn(procs, **keys):
    info = MPI.Info.Create(list(keys.items()))
    children = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "child", *ARGS], maxprocs=procs, info=info)
    found = children.gather(None, root=MPI.ROOT)
    children.Disconnect()
    return found


def main(hostfile):
    print("host", *[f[0] for f in spawn(2, host="w2")])
    print("hosts", *sorted(f[0] for f in spawn(2, host="w1:1,w2:1")))
    print("hostfile", *[f[0] for f in spawn(1, hostfile=hostfile)])
    print("ppn", *sorted(f[0] for f in spawn(3, ppn="1")))
    print("map_by", *sorted(f[0] for f in spawn(3, map_by="node")))
    print("soft", len(spawn(4, soft="1:3:2")))
    print("wdir", *{f[1] for f in spawn(1, wdir="/usr")})
    print("env", *{f[2:] for f in spawn(1, env="SPAWN_A=1\nSPAWN_B=two words")})
    try:
        MPI.COMM_SELF.Spawn("/no/such/program", maxprocs=1)
    except MPI.Exception:
        print("program refused")
    print("spawn_info ok", flush=True)


child() if sys.argv[1] == "child" else main(sys.argv[1])
