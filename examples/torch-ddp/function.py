"""Trains a Python function with Kubeflow's SDK (pip install kubeflow==0.5.0), waits for its end and shows the log.

On a runtime for MPI the SDK makes it a program of mpirun's, which is mpiup, and MPIUP_ENV gives its ranks torch's
variables. Each rank writes the function to a file first: so one rank a pod (the runtime's numProcPerNode).
"""

import os
import sys

os.environ["DEFAULT_MPI_USER_HOME"] = "/tmp"  # where that file goes; read at the import

from kubeflow.trainer import CustomTrainer, TrainerClient
from kubeflow.trainer.options import Name


def train():
    import runpy

    runpy.run_path("/opt/train.py", run_name="__main__")


client = TrainerClient()
trainer = CustomTrainer(func=train, num_nodes=2, image="registry.example.com/torch-ddp:1", env={"MPIUP_ENV": "torch"})
job = client.train(runtime=sys.argv[1], trainer=trainer, options=[Name("torch-ddp")])
end = client.wait_for_job_status(job, {"Complete", "Failed"}).status
print(*client.get_job_logs(job), f"the TrainJob is {end}", sep="\n")
