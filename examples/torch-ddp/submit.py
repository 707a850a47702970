"""Makes the TrainJob of trainer.yaml with Kubeflow's SDK (pip install kubeflow==0.5.0), waits for its end and shows the launcher's log."""

from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import Name, TrainerCommand

client = TrainerClient()
job = client.train(
    runtime="torch-ddp",
    # The runtime's own image: Trainer gives a job's to the launcher alone.
    # Resources and variables reach every pod with ranks, since the runtime has runLauncherAsNode: true.
    trainer=CustomTrainerContainer(
        image="registry.example.com/torch-ddp:1",
        num_nodes=2,
        resources_per_node={"cpu": 1, "memory": "2Gi"},
        env={"NCCL_DEBUG": "WARN"},
    ),
    options=[
        Name("torch-ddp"),
        TrainerCommand(["mpiup", "run", "--mpi-ports", "18000-18099", "-n", "4", "python3", "/opt/train.py"]),
    ],
)
end = client.wait_for_job_status(job, {"Complete", "Failed"}).status
print(*client.get_job_logs(job), f"the TrainJob is {end}", sep="\n")
