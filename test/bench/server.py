"""Horovod's own rendezvous server for a job of HOSTSxRANKS: prints its port, and serves until its input ends."""

import sys

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

hosts, ranks = (int(n) for n in sys.argv[1].split("x"))
server = RendezvousServer()
port = server.start()
server.init(get_host_assignments(parse_hosts(",".join(f"w{h}:{ranks}" for h in range(hosts))), hosts * ranks))
print(port, flush=True)
sys.stdin.read()
