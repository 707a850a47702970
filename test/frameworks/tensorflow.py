"""Trains the examples' small model by TensorFlow's MultiWorkerMirroredStrategy, which reads TF_CONFIG."""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = 60


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    w = np.random.default_rng(1).normal(size=(8, 1))
    rng = np.random.default_rng(100 + rank)
    x = rng.normal(size=(512 // size, 8))
    x, y = tf.constant(x, tf.float32), tf.constant(x @ w + 0.5, tf.float32)
    with strategy.scope():
        tf.random.set_seed(0)
        hidden = tf.Variable(tf.random.normal((8, 16), stddev=0.25, seed=rank))  # rank 0's becomes everybody's
        bias = tf.Variable(tf.zeros(16))
        out = tf.Variable(tf.random.normal((16, 1), stddev=0.25, seed=rank))
    weights = [hidden, bias, out]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ hidden + bias) @ out - y) ** 2)
        context = tf.distribute.get_replica_context()
        for v, g in zip(weights, context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, weights))):
            v.assign_sub(0.1 * g)
        return loss

    run = tf.function(lambda: strategy.run(step))
    losses = [float(strategy.experimental_local_results(run())[0]) for _ in range(STEPS)]

    mine = tf.concat([tf.reshape(v.read_value(), [-1]) for v in weights], 0)
    gather = tf.function(lambda: strategy.run(lambda: tf.distribute.get_replica_context().all_gather(mine[None], 0)))
    all_ranks = strategy.experimental_local_results(gather())[0].numpy()
    same = len(all_ranks) == size and bool((all_ranks == all_ranks[0]).all())
    sys.stdout.write(f"rank {rank} of {size}: loss {losses[0]:.3f} to {losses[-1]:.3f}, weights equal rank 0's: {same}\n")
    return 0 if len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]) == size else 1


if __name__ == "__main__":
    sys.exit(main())
