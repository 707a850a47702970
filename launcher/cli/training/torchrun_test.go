package training

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

// parseTorchrun is ParseTorchrun with variables, blanks between, in a pod of 3 processors.
func parseTorchrun(args []string, variables string) (Torchrun, error) {
	return ParseTorchrun(args, func(name string) (string, bool) {
		for kv := range strings.SplitSeq(variables, " ") {
			if n, v, ok := strings.Cut(kv, "="); ok && n == name {
				return v, true
			}
		}
		return "", false
	}, func(word string) (int, error) {
		if word == "gpu" {
			return 0, errors.New("no GPU is here")
		}
		return 3, nil
	})
}

// String is an endpoint as the table below has it.
func (e *Endpoint) String() string {
	text := fmt.Sprintf("%s:%d %s %d", e.Host, e.Port, map[bool]string{true: "static", false: "c10d"}[e.Static], e.Number)
	if e.Hosts != nil {
		text += map[bool]string{true: " own", false: " other"}[*e.Hosts]
	}
	return text
}

func TestLinesOfTorchrun(t *testing.T) {
	const here, python = "-np 2 -npernode 2 --oversubscribe -bind-to none", " python3 train.py"
	const rank = "MPIUP_RANK=1 MPIUP_SIZE=2 MPIUP_LOCAL_SIZE=1"
	for _, tt := range []struct {
		line, env   string
		nodes, node int
		words, gets string
		err         string
	}{
		// This pod alone.
		{"train.py --lr 1", "", 1, 0, "-np 1 -npernode 1 --oversubscribe -bind-to none" + python + " --lr 1", "", ""},
		{"--nproc_per_node=2 train.py", "", 1, 0, here + python, "", ""},
		{"--standalone --nnodes=4 --nproc-per-node 2 --node-rank 3 --master-addr x train.py", "", 1, 0, here + python, "", ""},
		{"--nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id 7 train.py", "", 1, 0, here + python, "TORCHELASTIC_RUN_ID=7", ""},
		{"--nproc-per-node 2 --master-port 1234 train.py", "", 1, 0, here + python, "MASTER_ADDR=127.0.0.1 MASTER_PORT=1234", ""},
		{"--nproc-per-node auto train.py", "", 1, 0, "-np 3 -npernode 3 --oversubscribe -bind-to none" + python, "", ""},
		{"--nproc-per-node 2 -m package.train", "PYTHON_EXEC=/opt/python", 1, 0, here + " /opt/python -m package.train", "", ""},
		{"--nproc-per-node 2 --no-python --role worker -- ./train", "", 1, 0, here + " ./train", "ROLE_NAME=worker", ""},
		{"--nproc-per-node 2 -r3 --log-dir /logs train.py", "", 1, 0, here + " --output-filename /logs:nojobid,nocopy" + python, "", ""},
		{"--nproc-per-node 2 -t 3 --log_dir=/logs train.py", "", 1, 0, here + " --tag-output --output-filename /logs:nojobid" + python, "", ""},
		{"--nproc-per-node 2 -t 9:1 train.py", "", 1, 0, here + python, "", ""},
		{"--nproc-per-node 2 --no-python a : -n : -s -- --app b", "", 1, 0, here + " a : -n : -s -- --app b", "", ""},
		// This pod's part of what a launcher outside has numbered.
		{"--nnodes 2 --nproc-per-node 2 --rdzv-endpoint w0:1 train.py", rank, 2, 1, here + python, "MASTER_ADDR=w0 MASTER_PORT=1", ""},
		{"--nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint w0 train.py", rank, 2, 1, here + python, "MASTER_ADDR=w0 MASTER_PORT=29400", ""},
		// This pod's part, when the nodes have met: at the endpoint, asking for a number; whose the endpoint is, where that is said.
		{"--nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr w0 train.py", "", 2, 1, here + python, "w0:29500 static 1 other", ""},
		{"--nnodes 2:2 --nproc-per-node 2 --node-rank 0 --rdzv-backend c10d --rdzv-endpoint w0 train.py", "", 2, 0, here + python, "w0:29400 c10d 0", ""},
		{"--nnodes 2 --nproc-per-node 2 --node-rank 0 --rdzv-endpoint [fd77::1]:99 train.py", "", 2, 0, here + python, "fd77::1:99 static 0 own", ""},
		{"--nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint w0:29400 train.py", "", 2, 0, here + python, "w0:29400 c10d -1", ""},
		{"--nnodes=1:3 --nproc-per-node=2 --rdzv_backend=c10d --rdzv_endpoint=w0:29400 --rdzv_id=7 --rdzv_conf=is_host=1 train.py", "", 3, 0, here + python,
			"TORCHELASTIC_RUN_ID=7 w0:29400 c10d -1 own", ""},
		{"--nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --master-addr w0 --rdzv-conf is_host=False train.py", "", 2, 0, here + python, "w0:29400 c10d -1 other", ""},
		{"--nnodes 2 --nproc-per-node 2 --master-addr w0 train.py", "", 2, 0, here + python, "w0:29500 static -1", ""},
		{"train.py", "PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=1 PET_MASTER_ADDR=a-node-0-0.a PET_MASTER_PORT=29400 PET_MAX_RESTARTS=0", 2, 1, here + python, "a-node-0-0.a:29400 static 1 other", ""},
		{"--nproc-per-node 2 train.py", "PET_NNODES=2 PET_NPROC_PER_NODE=gpu PET_NODE_RANK=1 PET_MASTER_ADDR=a PET_REDIRECTS=9:1", 2, 1, here + python, "a:29500 static 1 other", ""},
		{"--nnodes 1:4 --nproc-per-node 2 --node-rank 0 --master-addr w0 train.py", "", 4, 0, here + python, "w0:29500 static 0 own", ""},
		// All nodes.
		{"--nnodes 2 --nproc-per-node 2 train.py", "", 2, All, "--fwd-environment -np 4 -npernode 2 --oversubscribe -bind-to none" + python, "", ""},
		{"--nnodes 2 --nproc-per-node 2 --master-port 99 --rdzv-id 7 train.py", "MPIUP_SIZE=4 MPIUP_LOCAL_SIZE=1", 2, All, "--fwd-environment -np 4 -npernode 2 --oversubscribe -bind-to none" + python,
			"MASTER_PORT=99 TORCHELASTIC_RUN_ID=7", ""},
		{"train.py", "PET_NNODES=1:4 PET_NPROC_PER_NODE=2", 4, All, "--fwd-environment -npernode 2 --oversubscribe -bind-to none" + python, "", ""},
		{"--nnodes 1:4 --standalone --nproc-per-node 2 train.py", "", 1, 0, here + python, "", ""},

		{"", "", 0, 0, "", "", "which program?"},
		{"--nnodes 4:1 train.py", "", 0, 0, "", "", "--nnodes 4:1: a range is written from the fewest"},
		{"--nnodes 1:x train.py", "", 0, 0, "", "", "no number of nodes"},
		{"--rdzv-conf last_call_timeout=soon train.py", "", 0, 0, "", "", "last_call_timeout: that is no number of seconds"},
		{"train.py", "PET_MAX_RESTARTS=-1", 0, 0, "", "", "PET_MAX_RESTARTS=-1: that is no whole number"},
		{"--max-restarts few train.py", "", 0, 0, "", "", "no whole number"},
		{"--rdzv-backend etcd train.py", "", 0, 0, "", "", "--rdzv-backend etcd: nodes are not found by that service"},
		{"--nnodes 2 --node-rank 1 train.py", "", 0, 0, "", "", "where is node 0?"},
		{"--nnodes 2 --node-rank 2 --master-addr a train.py", "", 0, 0, "", "", "the nodes are 0 to 1"},
		{"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint w0:0 train.py", "", 0, 0, "", "", "0 is no port"},
		{"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint :29400 train.py", "", 0, 0, "", "", "where is node 0?"},
		{"--nnodes 2 --rdzv-endpoint w0 --rdzv-conf is_host=maybe train.py", "", 0, 0, "", "", "is_host is 1 or 0"},
		{"--nnodes 2 --node-rank 0 --master-addr a --master-port x train.py", "", 0, 0, "", "", "x is no port"},
		{"--nnodes 0 train.py", "", 0, 0, "", "", "no number of nodes"},
		{"--nnodes 2 --nproc-per-node gpu train.py", "", 0, 0, "", "", "write the number"},
		{"--nproc-per-node gpu train.py", "", 0, 0, "", "", "--nproc-per-node gpu: no GPU is here"},
		{"--nproc-per-node xpu train.py", "", 0, 0, "", "", "write a number, or auto"},
		{"--nproc-per-node 0 train.py", "", 0, 0, "", "", "write a number, or auto"},
		{"--node-rank -1 train.py", "", 0, 0, "", "", "no node's number"},
		{"-t 1 --log-dir x train.py", "", 0, 0, "", "", "--tee 1: 3, both streams"},
		{"-r 0:3 --log-dir x train.py", "", 0, 0, "", "", "--redirects 0:3: 3, both"},
		{"-t 3 train.py", "", 0, 0, "", "", "say where with --log-dir"},
		{"--local-ranks-filter a train.py", "", 0, 0, "", "", "write local ranks"},
		{"--shutdown-timeout 0 train.py", "", 0, 0, "", "", "no number of seconds"},
		{"--no-python -m train", "", 0, 0, "", "", "exclude each other"},
		{"--run-path train.py", "", 0, 0, "", "", "--run-path: each rank is a process"},
		{"train.py", "PET_RUN_PATH=1", 0, 0, "", "", "PET_RUN_PATH=1: each rank is a process"},
		{"--standalone=1 train.py", "", 0, 0, "", "", "--standalone takes no value"},
		{"--nnodes", "", 0, 0, "", "", "--nnodes needs a value"},
		{"--nonsense train.py", "", 0, 0, "", "", "unknown option --nonsense"},
	} {
		l, err := parseTorchrun(strings.Fields(tt.line), tt.env)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s (%s): error %v, want %q", tt.line, tt.env, err, tt.err)
		}
		if err == nil && l.Meets != nil {
			l.Env = append(l.Env, l.Meets.String())
		}
		if got, gets := strings.Join(slices.Concat(l.Words, l.Program), " "), strings.Join(l.Env, " "); got != tt.words || gets != tt.gets || l.Nodes != tt.nodes || l.Node != tt.node {
			t.Errorf("%s (%s): node %d of %d\n%s\n%s, want node %d of %d\n%s\n%s", tt.line, tt.env, l.Node, l.Nodes, got, gets, tt.node, tt.nodes, tt.words, tt.gets)
		}
	}
}

func TestWhatIsForTheRunOfTorchrun(t *testing.T) {
	l, err := parseTorchrun(strings.Fields("--local-ranks-filter 0,2 --shutdown-timeout 9 --max-restarts 3 --monitor-interval 5 --rdzv_conf=timeout=9,last_call_timeout=7,join_timeout=8 --nnodes 2:3 a.py"), "")
	if err != nil || len(l.Shown) != 2 || l.Shown[1] != 2 || l.Grace != 9*time.Second || l.MaxRestarts != 3 || strings.Join(l.Read.Line.Without, ", ") != "--monitor-interval 5, --rdzv-conf timeout=9" ||
		l.Least != 2 || l.Nodes != 3 || l.LastCall != 7*time.Second || l.Join != 8*time.Second {
		t.Errorf("%+v, %v", l, err)
	}
	for _, word := range []string{"--help", "-h"} {
		if l, err := parseTorchrun([]string{word}, "PET_NNODES=1:4"); err != nil || !l.Read.Line.Help {
			t.Errorf("%s: %+v, %v", word, l, err)
		}
	}
	if got := strings.Join(Inherited(strings.Fields("A=1 RANK=2 RANKS=3 TORCHELASTIC_RUN_ID=4 MASTER_PORT=5")), " "); got != "A=1 RANKS=3" {
		t.Errorf("inherited is %q", got)
	}
}

func FuzzTorchrun(f *testing.F) {
	f.Add("--nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr w0 train.py", "PET_NNODES=2")
	f.Add("-r3 -t 0:1,1:2 --log-dir x a", "PET_RDZV_ENDPOINT=[::1]:9")
	f.Fuzz(func(t *testing.T, line, env string) {
		defer cost.Watch(t, cost.Parser, len(line)+len(env))()
		l, err := parseTorchrun(strings.Split(line, " "), env)
		size := 0
		for _, w := range slices.Concat(l.Words, l.Program, l.Env) {
			size += len(w)
		}
		if err == nil && (size > 3*len(line)+3*len(env)+4096 || l.Node < All || l.Node >= max(l.Nodes, 1)) {
			t.Errorf("node %d of %d, %d bytes of words", l.Node, l.Nodes, size)
		}
	})
}
