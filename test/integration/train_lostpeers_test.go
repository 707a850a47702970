package integration

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// Scripts of ranks that compute together without end, of which GUILTY does something else at step 5.
const (
	jaxReducing = `
import os, signal
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize(shutdown_timeout_seconds=5) # for so long a rank that raised waits for the others; else 5 minutes
rank, step = jax.process_index(), 0
while True:
    step += 1
    if rank == GUILTY and step == 5:
        DO
    multihost_utils.process_allgather(jnp.ones(3))
`
	tensorFlowReducing = `
import os, signal
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, step = strategy.cluster_resolver.task_id, 0
total = tf.function(lambda: strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones(3))))
while True:
    step += 1
    if rank == GUILTY and step == 5:
        DO
    total()
`
)

// When a rank of JAX's or TensorFlow's ends, the others end with errors about it. JAX has all abort together, the one
// that raised too, which may be before or after the others. The verdict names that one.
func TestWhoseFaultTheEndOfJAXAndTensorFlowIs(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const raises, dies = `raise ValueError("loss is nan at step %d" % step)`, `os.kill(os.getpid(), signal.SIGKILL)`
	jax := func(t *testing.T) string {
		python, whole := framework("jax")
		need.File(t, "jax", whole, "run test/frameworks.sh jax")
		return python
	}
	tensorFlow := func(t *testing.T) string {
		python, whole := framework("tensorflow")
		need.File(t, "tensorflow", whole, "run test/frameworks.sh tensorflow")
		return python
	}
	for _, c := range []struct {
		name                      string
		python                    func(*testing.T) string
		env, script, guilty, does string
		code                      int
		says                      []string
	}{
		{"JAX, one raises", jax, "jax", jaxReducing, "1", raises, 134, []string{"mpiup: rank 1 on w1 ", ": ValueError: loss is nan at step 5 (train.py:"}},
		{"JAX, the coordinator is killed", jax, "jax", jaxReducing, "0", dies, 137, []string{"mpiup: rank 0 on w0 was killed by signal 9 (SIGKILL)\n"}},
		{"TensorFlow, one raises", tensorFlow, "tf", tensorFlowReducing, "1", raises, 1, []string{"mpiup: rank 1 on w1 exited with code 1: ValueError: loss is nan at step 5 (train.py:"}},
		{"TensorFlow, the chief is killed", tensorFlow, "tf", tensorFlowReducing, "0", dies, 137, []string{"mpiup: rank 0 on w0 was killed by signal 9 (SIGKILL)\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			python, script := c.python(t), l.trainer(t, strings.NewReplacer("GUILTY", c.guilty, "DO", c.does).Replace(c.script))
			l.run(t, job{hosts: "w0:1,w1:2", args: []string{"-n", "3", "--env", c.env, python, script}}).Fails(t, c.code, c.says...)
		})
	}
}
