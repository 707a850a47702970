package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// grove is what Grove's operator tells all pods of one replica of a scaling group.
const grove = "GROVE_PCS_NAME=g GROVE_PCS_INDEX=0 GROVE_HEADLESS_SERVICE=g-0.ns.svc.cluster.local GROVE_PCSG_NAME=g-0-decode GROVE_PCSG_INDEX=1 GROVE_PCSG_TEMPLATE_NUM_PODS=3 "

// Which of a job's pods each kind of controller makes the first, by what its pods are told.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		name, host, env string
		etcHosts        string // the pod's own full name
		file            string // below etc, with a line of a hostfile
		listed          []string
		ssh             bool
		index           int // 1 + --index
		first           bool
		by, of, wrong   string
		again           bool
	}{
		{name: "an Indexed Job's first", host: "pi-0", env: "JOB_COMPLETION_INDEX=0", first: true, by: "JOB_COMPLETION_INDEX=0", of: "pi-0"},
		{name: "an Indexed Job's third", host: "pi-2", env: "JOB_COMPLETION_INDEX=2", by: "JOB_COMPLETION_INDEX=2", of: "pi-0"},
		{name: "a JobSet's second", host: "pi-node-0-1", env: "JOB_COMPLETION_INDEX=1", by: "JOB_COMPLETION_INDEX=1", of: "pi-node-0-0"},
		{name: "a JobSet's of one Job", host: "pi-node-0-0", env: "JOB_COMPLETION_INDEX=0 JOBSET_GLOBAL_REPLICAS=1", first: true, by: "JOB_COMPLETION_INDEX=0", of: "pi-node-0-0"},
		{name: "a JobSet's of two Jobs", host: "pi-a-0-0", env: "JOB_COMPLETION_INDEX=0 JOBSET_GLOBAL_REPLICAS=2", wrong: `JOBSET_GLOBAL_REPLICAS="2": each Job of this JobSet has a pod of JOB_COMPLETION_INDEX 0`},
		{name: "named in a JobSet of two Jobs", host: "pi-b-0-0", env: "JOB_COMPLETION_INDEX=0 JOBSET_GLOBAL_REPLICAS=2", listed: []string{"pi-a-0-0.pi", "pi-b-0-0.pi"}, by: "the command line, which names host pi-b-0-0.pi", of: "pi-a-0-0"},
		{name: "Trainer's with a job before it", host: "pi-node-0-0", env: "JOB_COMPLETION_INDEX=0 PET_NODE_RANK=0 JOBSET_GLOBAL_REPLICAS=2", first: true, by: "PET_NODE_RANK=0", of: "pi-node-0-0"},
		{name: "a flag counts more", host: "pi-0", env: "JOB_COMPLETION_INDEX=0", index: 3, by: "--index 2"},
		{name: "no number", host: "pi-0", env: "JOB_COMPLETION_INDEX=x", wrong: `JOB_COMPLETION_INDEX="x" is not the number of a pod`},
		{name: "a LeaderWorkerSet's leader", host: "serve-1", env: "LWS_LEADER_ADDRESS=serve-1.serve.ns LWS_WORKER_INDEX=0", first: true, by: "LWS_WORKER_INDEX=0", of: "serve-1", again: true},
		{name: "its worker", host: "serve-1-2", env: "LWS_LEADER_ADDRESS=serve-1.serve.ns LWS_WORKER_INDEX=2", by: "LWS_WORKER_INDEX=2", of: "serve-1", again: true},
		{name: "a leader of an older one", host: "serve-1", env: "LWS_LEADER_ADDRESS=serve-1.serve.ns", first: true, by: "LWS_LEADER_ADDRESS=serve-1.serve.ns", of: "serve-1", again: true},
		{name: "Grove's leader", host: "g-0-decode-1-decode-ldr-0", env: grove + "GROVE_PCLQ_NAME=g-0-decode-1-decode-ldr GROVE_PCLQ_POD_INDEX=0", etcHosts: "g-0-decode-1-decode-ldr-0.g-0.ns.svc.cluster.local", first: true, by: "GROVE_PCLQ_NAME=g-0-decode-1-decode-ldr and GROVE_PCLQ_POD_INDEX=0", of: "g-0-decode-1-decode-ldr-0", again: true},
		{name: "its first worker", host: "g-0-decode-1-decode-wkr-0", env: grove + "GROVE_PCLQ_NAME=g-0-decode-1-decode-wkr GROVE_PCLQ_POD_INDEX=0", etcHosts: "g-0-decode-1-decode-wkr-0.g-0.ns.svc.cluster.local", by: "GROVE_PCLQ_NAME=g-0-decode-1-decode-wkr and GROVE_PCLQ_POD_INDEX=0", of: "g-0-decode-1-decode-ldr-0", again: true},
		{name: "a worker in Grove's samples", host: "g-0-m-0-worker-1", env: grove + "GROVE_PCLQ_NAME=g-0-m-0-worker GROVE_PCLQ_POD_INDEX=1", etcHosts: "g-0-m-0-worker-1.g-0.ns.svc.cluster.local", by: "GROVE_PCLQ_NAME=g-0-m-0-worker and GROVE_PCLQ_POD_INDEX=1", of: "g-0-m-0-leader-0", again: true},
		{name: "the second of a clique alone", host: "g-0-pi-1", env: grove + "GROVE_PCLQ_NAME=g-0-pi GROVE_PCLQ_POD_INDEX=1", etcHosts: "g-0-pi-1.g-0.ns.svc.cluster.local", by: "GROVE_PCLQ_NAME=g-0-pi and GROVE_PCLQ_POD_INDEX=1", of: "g-0-pi-0", again: true},
		{name: "a second leader", host: "g-0-decode-1-decode-ldr-1", env: grove + "GROVE_PCLQ_NAME=g-0-decode-1-decode-ldr GROVE_PCLQ_POD_INDEX=1", etcHosts: "g-0-decode-1-decode-ldr-1.g-0.ns.svc.cluster.local", wrong: `GROVE_PCLQ_POD_INDEX="1" in the clique g-0-decode-1-decode-ldr: a job has one leader`},
		{name: "MPI Operator's launcher", host: "pi-launcher", env: "K_MPI_JOB_ROLE=launcher", first: true, by: "K_MPI_JOB_ROLE=launcher", of: "pi-launcher"},
		{name: "MPI Operator's worker", host: "pi-worker-0", env: "K_MPI_JOB_ROLE=worker", ssh: true, by: "K_MPI_JOB_ROLE=worker", of: "pi-launcher"},
		{name: "Trainer's launcher", host: "pi-launcher-0-0", env: "JOB_COMPLETION_INDEX=0", file: "mpi/hostfile", ssh: true, first: true, by: "the hostfile /etc/mpi/hostfile", of: "pi-launcher-0-0"},
		{name: "Trainer's first node beside a launcher", host: "pi-node-0-0", env: "JOB_COMPLETION_INDEX=0", etcHosts: "pi-node-0-0.pi.ns.svc.cluster.local", ssh: true, by: "a node's host name and no hostfile (Kubeflow Trainer)", of: "pi-launcher-0-0"},
		{name: "Trainer's first node of torch", host: "pi-node-0-0", env: "JOB_COMPLETION_INDEX=0 PET_NODE_RANK=0", first: true, by: "PET_NODE_RANK=0", of: "pi-node-0-0"},
		{name: "Trainer's second node without a policy", host: "pi-node-0-1", env: "JOB_COMPLETION_INDEX=1", etcHosts: "pi-node-0-1.pi.ns.svc.cluster.local", by: "JOB_COMPLETION_INDEX=1", of: "pi-node-0-0"},
		{name: "Volcano's only task", host: "pi-node-1", env: "VC_NODE_HOSTS=pi-node-0.pi,pi-node-1.pi", by: "the first of Volcano's task node, pi-node-0.pi", of: "pi-node-0"},
		{name: "Volcano's master", host: "pi-master-0", env: "VC_WORKER_HOSTS=pi-worker-0.pi VC_MASTER_HOSTS=pi-master-0.pi", first: true, by: "the first of Volcano's task master, pi-master-0.pi", of: "pi-master-0"},
		{name: "two tasks of Volcano's", host: "pi-a-0", env: "VC_A_HOSTS=pi-a-0.pi VC_B_HOSTS=pi-b-0.pi", wrong: "of this Volcano job's 2 tasks none is called master or launcher: say --index 0"},
		{name: "a StatefulSet's", host: "pool-1", etcHosts: "pool-1.pool.ns.svc.cluster.local", by: "the number in the host name pool-1", of: "pool-0", again: true},
		{name: "a number that no StatefulSet gives", host: "pool-01", etcHosts: "pool-01.pool.ns.svc.cluster.local", wrong: "There is none of JOB_COMPLETION_INDEX"},
		{name: "named first", host: "w0", listed: []string{"w0", "w1"}, env: "JOB_COMPLETION_INDEX=4", first: true, by: "the command line, which names host w0", of: "w0"},
		{name: "named second", host: "w1", listed: []string{"w0.x", "w1.x"}, by: "the command line, which names host w1.x", of: "w0"},
		{name: "not named", host: "w2", listed: []string{"w0", "w1"}, wrong: "the command line names 2 hosts, and this one, w2, is none of them"},
		{name: "a laptop", host: "laptop-2", wrong: `the host name "laptop-2" has no number of a StatefulSet's: say --index N, of which 0 launches`},
	} {
		t.Run(c.name, func(t *testing.T) {
			vars := strings.Fields(c.env)
			s := Sources{Root: t.TempDir(), Hostname: c.host, Environ: func() []string { return vars }, Number: Number{Env: func(name string) string {
				for _, v := range vars {
					if value, ok := strings.CutPrefix(v, name+"="); ok {
						return value
					}
				}
				return ""
			}}}
			for _, name := range c.listed {
				s.Entries = append(s.Entries, hostlist.Entry{Name: name})
			}
			write := func(name, text string) {
				path := filepath.Join(s.Root, "etc", name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.etcHosts != "" {
				write("hosts", "10.0.0.7\t"+c.etcHosts+"\t"+c.host+"\n")
			}
			if c.file != "" {
				write(c.file, "pi-node-0-0.pi slots=2\n")
			}
			got, err := s.Part(c.index-1, c.ssh)
			if want := (Part{First: c.first, By: c.by, Of: c.of, Again: c.again}); got != want {
				t.Errorf("%+v, not %+v", got, want)
			}
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, not %q", err, c.wrong)
			}
		})
	}
}
