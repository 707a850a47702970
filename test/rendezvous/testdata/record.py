"""Records what Horovod's Gloo ranks ask of their rendezvous server: python3 record.py HOSTSxRANKS >FILE.

The server is Horovod's own (horovod.runner.http.http_server), with a port for each rank, so that it is known who asks;
all ports have one store. Ranks run here and are told of hosts w0, w1 ... A line is a request, in the order of a rank's:

    rank method /scope/key body-bytes status answer-bytes
"""

import os
import platform
import subprocess
import sys
import threading

import horovod
import torch
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

PROGRAM = """
import horovod.torch as hvd, torch
hvd.init()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == hvd.size()
hvd.shutdown()
"""


class Handler(RendezvousHandler):
    """Notes a request before its answer goes out, since the client may then ask the next."""

    def send_response(self, code, message=None):
        self.code, self.length = code, 0
        super().send_response(code, message)

    def send_header(self, name, value):
        if name == "Content-Length":
            self.length = int(value)
        super().send_header(name, value)

    def end_headers(self):
        body = self.headers.get("Content-Length", 0)
        self.server.lines.append(f"{self.server.rank} {self.command} {self.path} {body} {self.code} {self.length}")
        super().end_headers()


def main():
    hosts, ranks = (int(n) for n in sys.argv[1].split("x"))
    plan = get_host_assignments(parse_hosts(",".join(f"w{h}:{ranks}" for h in range(hosts))), hosts * ranks)
    servers, started = [], []
    for slot in plan:
        server = RendezvousHTTPServer(("127.0.0.1", 0), Handler, 0)
        server.rank, server.lines = slot.rank, []
        if servers:
            for shared in "cache_lock", "cache", "finished_list_lock", "finished_list", "scope_size":
                setattr(server, shared, getattr(servers[0], shared))
        else:
            server.init(plan)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = dict(os.environ, HOROVOD_CONTROLLER="gloo", HOROVOD_CPU_OPERATIONS="gloo", HOROVOD_GLOO_IFACE="lo",
                   HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1", HOROVOD_GLOO_RENDEZVOUS_PORT=str(server.server_address[1]),
                   HOROVOD_HOSTNAME=slot.hostname, HOROVOD_RANK=str(slot.rank), HOROVOD_SIZE=str(slot.size),
                   HOROVOD_LOCAL_RANK=str(slot.local_rank), HOROVOD_LOCAL_SIZE=str(slot.local_size),
                   HOROVOD_CROSS_RANK=str(slot.cross_rank), HOROVOD_CROSS_SIZE=str(slot.cross_size))
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM], env=env))
    codes = [p.wait() for p in started]
    print(f"# record.py {sys.argv[1]}, Horovod {horovod.__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    for server in servers:
        print("\n".join(server.lines))
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
