package mpirun

import (
	"fmt"
	"strings"
	"testing"
)

// The command lines of frameworks and of examples that people copy.
func TestScripts(t *testing.T) {
	has := world{
		env: "PATH=/bin LD_LIBRARY_PATH=/l NCCL_DEBUG=INFO PYTHONPATH=/p",
		files: map[string]string{"/job/hostfile": "w0 slots=8\nw1 slots=8\n", "./hostfile": "w0:8\nw1:8\n",
			"/tmp/deepspeed_mvapich_hostfile": "w0\nw1\n"},
	}
	for _, tt := range []struct {
		from, line string
		want       string // family, programs as N:first word, hosts, ranks a host, variables, what else is told of
	}{
		{"MPI Operator, pi", "mpirun -n 2 /home/mpiuser/pi", "Open MPI | 2:/home/mpiuser/pi | | 0 | 0"},
		{"MPI Operator, TensorFlow benchmarks", `mpirun --allow-run-as-root -np 2 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH
			-mca pml ob1 -mca btl ^openib python scripts/tf_cnn_benchmarks.py --model=resnet101 --batch_size=64 --variable_update=horovod`,
			"Open MPI | 2:python | | 0 | 5 | --allow-run-as-root"},
		{"NVIDIA DeepLearningExamples, BERT", `mpirun -np 8 -H localhost:8 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH
			-mca pml ob1 -mca btl ^openib --allow-run-as-root python run_pretraining.py`, "Open MPI | 8:python | localhost:8 | 0 | 5 | --allow-run-as-root"},
		{"NVIDIA DeepLearningExamples, mpiexec", "mpiexec --allow-run-as-root --bind-to socket -np 8 python3 main.py", "Open MPI | 8:python3 | | 0 | 0 | --allow-run-as-root"},
		{"nccl-tests on CoreWeave", `mpirun -np 64 -bind-to none -x LD_LIBRARY_PATH -x NCCL_DEBUG=INFO -x NCCL_SOCKET_IFNAME=eth0 -x NCCL_IB_HCA=ibp
			-x UCX_NET_DEVICES=ibp0:1,ibp1:1 /opt/nccl_tests/build/all_reduce_perf -b 512M -e 8G -f 2 -g 1`,
			"Open MPI | 64:/opt/nccl_tests/build/all_reduce_perf | | 0 | 5"},
		{"nccl-tests on AWS EKS", `/opt/amazon/openmpi/bin/mpirun --allow-run-as-root --tag-output -np 16 -N 8 --bind-to none -x PATH -x LD_LIBRARY_PATH
			-x FI_PROVIDER=efa -x NCCL_DEBUG=INFO --mca pml ^cm,ucx --mca btl tcp,self --mca btl_tcp_if_exclude lo,docker0
			/opt/nccl-tests/build/all_reduce_perf -b 8 -e 16G -f 2 -g 1 -c 1 -n 100`,
			"Open MPI | 16:/opt/nccl-tests/build/all_reduce_perf | | 8 | 7 | --allow-run-as-root"},
		{"nccl-tests on Azure", `mpirun -np 16 --map-by ppr:8:node -hostfile ./hostfile -mca coll_hcoll_enable 0 --bind-to numa
			-x NCCL_IB_PCI_RELAXED_ORDERING=1 -x LD_LIBRARY_PATH -x UCX_TLS=tcp -x UCX_NET_DEVICES=eth0 -x CUDA_DEVICE_ORDER=PCI_BUS_ID
			-x NCCL_TOPO_FILE=/opt/t.xml all_reduce_perf -b1K -f2 -g1 -e 4G`, "Open MPI | 16:all_reduce_perf | w0:8 w1:8 | 8 | 7"},
		{"MLCommons", "mpirun --allow-run-as-root -np 8 --oversubscribe --report-bindings --merge-stderr-to-stdout bash run.sh", "Open MPI | 8:bash | | 0 | 0 | --allow-run-as-root"},
		{"horovodrun, Open MPI", `mpirun --allow-run-as-root --tag-output -np 4 -H w0:2,w1:2 -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib
			-mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 2 -mca plm_rsh_args '-p 22' -mca btl_tcp_if_include eth0
			-x NCCL_SOCKET_IFNAME=eth0 --output-filename out -x PATH -x PYTHONPATH python train.py`,
			"Open MPI | 4:python | w0:2 w1:2 | 0 | 6 | --allow-run-as-root,parameter plm_rsh_no_tree_spawn,parameter plm_rsh_num_concurrent,parameter plm_rsh_args"},
		{"horovodrun, MPICH", `mpirun -l -np 4 -ppn 2 -hosts w0,w1 -bind-to none -map-by slot -bootstrap=ssh -bootstrap-exec-args '-p 22'
			-iface eth0 -genv NCCL_SOCKET_IFNAME=eth0 python train.py`, "Hydra | 4:python | w0 w1 | 2 | 2 | -bootstrap=ssh,-bootstrap-exec-args -p 22"},
		{"DeepSpeed, openmpi", `mpirun -n 16 -hostfile /job/hostfile --mca btl ^openib --mca btl_tcp_if_include eth0 -x UCX_TLS="tcp"
			'-x' 'PYTHONPATH="/p q"' python -u train.py --deepspeed ds.json`, "Open MPI | 16:python | w0:8 w1:8 | 0 | 4"},
		{"DeepSpeed, mpich", `mpirun -n 16 -ppn 8 -genv PYTHONPATH "/p" -genv MASTER_ADDR w0 -genv MASTER_PORT 29500 -genv WORLD_SIZE 16 -genv LOCAL_SIZE 8
			-hosts w0,w1 python -u launcher_helper.py --launcher mpich train.py`, "Hydra | 16:python | w0 w1 | 8 | 5"},
		{"DeepSpeed 0.19.8, openmpi", `mpirun -n 4 -hostfile ./hostfile --mca btl ^openib --mca btl_tcp_if_include eth0 -x UCX_TLS=tcp -x PYTHONPATH=/p
			-x 'QUOTED="a;b c"' python -u train.py`, "Open MPI | 4:python | w0:8 w1:8 | 0 | 5"},
		{"DeepSpeed 0.19.8, mpich", `mpirun -n 4 -ppn 2 -genv PYTHONPATH=/p -genv MASTER_ADDR w0 -genv MASTER_PORT 29500 -genv WORLD_SIZE 4 -genv LOCAL_SIZE 2
			-hosts w0,w1 python -u launcher_helper.py --launcher mpich train.py`, "Hydra | 4:python | w0 w1 | 2 | 5"},
		{"DeepSpeed, impi", `mpirun -ppn 1 -genv I_MPI_PIN 0 -hosts w0,w1 -n 1 -env RANK 0 -env LOCAL_RANK 0 python -u train.py :
			-n 1 -env RANK 1 -env LOCAL_RANK 0 python -u train.py`, "Hydra | 1:python 1:python | w0 w1 | 1 | 3"},
		{"DeepSpeed, mvapich", `mpirun -np 4 -ppn 2 --hostfile /tmp/deepspeed_mvapich_hostfile -env MV2_SMP_USE_CMA="0" -env MV2_DEBUG_SHOW_BACKTRACE="1"
			python -u train.py`, "Hydra | 4:python | w0 w1 | 2 | 2"},
		{"Accelerate, Open MPI", "mpirun --hostfile /job/hostfile --npernode 8 -n 16 --bind-to socket python train.py", "Open MPI | 16:python | w0:8 w1:8 | 8 | 0"},
		{"Accelerate, others", "mpirun -f ./hostfile -ppn 8 -n 16 python train.py", "Hydra | 16:python | w0:8 w1:8 | 8 | 0"},
		{"Intel's guides", "mpiexec.hydra -genv I_MPI_DEBUG=5 -n 4 -ppn 2 -f ./hostfile ./IMB-MPI1 pingpong", "Hydra | 4:./IMB-MPI1 | w0:8 w1:8 | 2 | 1"},
		{"TensorRT-LLM", "mpirun -n 2 --allow-run-as-root --oversubscribe python3 run.py", "Open MPI | 2:python3 | | 0 | 0 | --allow-run-as-root"},
		{"a master and workers", "mpirun -np 1 --bind-to none ./master : -np 7 -x OMP_NUM_THREADS=4 ./worker", "Open MPI | 1:./master 7:./worker | | 0 | 0"},
	} {
		t.Run(tt.from, func(t *testing.T) {
			args := words(t, tt.line)
			o := has.outside()
			decided, err := Decide(args[0], args[1:], o.Lookup, func([]string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			l, err := Parse(decided.Family, args[1:], o)
			if err != nil {
				t.Fatal(err)
			}
			var programs []string
			for _, c := range l.Contexts {
				programs = append(programs, fmt.Sprintf("%d:%s", c.N, c.Argv[0]))
			}
			hosts := ""
			for _, e := range l.Entries {
				hosts += " " + e.Name
				if e.Given {
					hosts += fmt.Sprintf(":%d", e.Slots)
				}
			}
			got := fmt.Sprintf("%s | %s |%s | %d | %d", l.Family, strings.Join(programs, " "), hosts, l.PerHost, len(l.Contexts[0].Env))
			if l.Without != nil {
				got += " | " + strings.Join(l.Without, ",")
			}
			if got != tt.want || len(l.Warnings) > 0 {
				t.Errorf("%s %q\nnot\n%s", got, l.Warnings, tt.want)
			}
		})
	}
}
