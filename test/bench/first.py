"""Runs an example's train.py and says when its rank had stepped for the first time, which is after the first all-reduce:

    python3 first.py /path/to/train.py

$T0 is when the command was given, in nanoseconds since 1970.
"""

import os
import runpy
import sys
import time

import torch

plain = torch.optim.SGD.step


def step(self, *args, **kwargs):
    torch.optim.SGD.step = plain
    sys.stdout.write(f"first all-reduce after {(time.time_ns() - int(os.environ['T0'])) // 1000} us\n")
    return plain(self, *args, **kwargs)


torch.optim.SGD.step = step
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
